"""System calls that no driver needs, and strangers' code could misuse.

A list of what is refused, since nobody knows all that drivers call. Landlock guards what files hold
and where they lie; who owns a file, and who may do what with it, it leaves to this list.
"""

from __future__ import annotations

from typing import Final

# Numbers on x86_64 and aarch64; -1: it has no such call.
REFUSED: Final = {
    # the network, and services of this machine behind Unix sockets
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    # modes, owners, dates and attributes of files, by their paths or by a file that is open
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "lchown": (94, -1),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "mknod": (133, -1),
    "mknodat": (259, 33),
    "truncate": (76, 45),  # by path: versions 1 and 2 of Landlock do not guard it
    # files by numbers, past all folders
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # memory, semaphores and messages that processes share by numbers or by names
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # memory and files of other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # leaving the group in which the supervisor kills all that a runner started
    "setsid": (112, 157),
    "setpgid": (109, 154),
    # keys
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # other views of the files
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    # parts of the kernel that are large, young or often broken
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "modify_ldt": (154, -1),
    # the machine itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "ioperm": (173, -1),
    "iopl": (172, -1),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
}

# Calls that are refused by their arguments.
CLONE: Final = (56, 220)
CLONE3: Final = (435, 435)  # its flags lie in memory, where a filter cannot look
IOCTL: Final = (16, 29)
PRLIMIT: Final = (302, 261)
SOCKETPAIR: Final = (53, 199)

NAMESPACES: Final = 0x7E020000  # CLONE_NEW*
# Pairs of other types send to any socket of the machine that has a name.
UNIX: Final = 1
PAIRS: Final = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
SOCKET_TYPE: Final = 0xF
# Commands of terminals: type as its user would. Those of file systems change what a file is, by a
# file that is open for reading; drivers' own commands have other types.
TERMINALS: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
FILE_SYSTEMS: Final = (*map(ord, "fXvr"), 0x94, 0xF5)  # all; XFS; ext2; FAT; Btrfs; F2FS
COMMAND_TYPE: Final = 0xFF00
