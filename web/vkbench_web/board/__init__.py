"""A board as files: pages and badges of many labs' exports, which any server of files shows."""
