"""Pages and a read API over the results database; they load nothing from other machines."""
