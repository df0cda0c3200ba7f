"""The last stage: tables, feedback pages and a picture of the class."""
