"""What people look at: tables, pages, pictures, files of results."""
