"""How a place on the page whose content the server writes hears of its buttons: see assets/ui/foresight.js."""

LISTEN = "foresight.listen(element, trigger)"
"""For `js_on_load`: a press of what carries data-do becomes a click of the component, with do, name and value."""
