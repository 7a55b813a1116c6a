"""Values as markup: templates, visible text, links, tables, pictures. Every text is a stranger's until it is escaped here."""
