"""A board: the export files of many labs, kept in one index and summed up case by case."""
