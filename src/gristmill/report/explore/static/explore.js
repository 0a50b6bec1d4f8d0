// Keyboard commands. Everything else is htmx attributes in the templates.
"use strict";
