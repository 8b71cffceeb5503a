"""Convolutions, pools and upsampling."""
