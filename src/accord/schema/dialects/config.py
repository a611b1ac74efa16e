"""Repairs of what a session offers to set: config options, modes, and the `models` object of older agents."""

from typing import Any

from accord.schema.dialects.content import rename_label
from accord.schema.dialects.members import Object, Rows, each_in, is_array, is_object, mark, move, twins
from accord.schema.dialects.provenance import SET_BY


def config_option(option: Object, rows: Rows) -> Object:
    """A config option with an id, a name and a current value (row 47)."""
    option = dict(option)
    twins(option, "currentValue", rows=rows)
    move(option, "id", "configId", "config_id", row=47, rows=rows)
    if "name" not in option and isinstance(option.get("id"), str):
        option["name"] = option["id"]
        rows.add(47)
    if option.get("type") == "select":
        if option.get("currentValue") is None:
            option["currentValue"] = ""
            rows.add(47)
        each_in(option, "options", _choice, rows)
    return option


def _choice(choice: Object, rows: Rows) -> Object:
    choice = dict(choice)
    if "options" in choice:
        each_in(choice, "options", _choice_of_group, rows)
        return choice
    return _choice_of_group(choice, rows)


def _choice_of_group(choice: Object, rows: Rows) -> Object:
    if "name" in choice or not isinstance(choice.get("value"), str):
        return choice
    rows.add(47)
    return choice | {"name": choice["value"]}


def session_state(result: Object, rows: Rows) -> Object:
    """The result of a method that starts a session: its modes, options and models."""
    result = dict(result)
    twins(result, "sessionId", "configOptions", rows=rows)
    each_in(result, "configOptions", config_option, rows)
    modes = result.get("modes")
    if is_object(modes):
        result["modes"] = modes = dict(modes)
        twins(modes, "currentModeId", "availableModes", rows=rows)
        each_in(modes, "availableModes", _mode, rows)
    _models(result, rows)
    return result


def _mode(mode: Object, rows: Rows) -> Object:
    mode = dict(mode)
    rename_label(mode, "name", rows)
    return mode


def _models(result: Object, rows: Rows) -> None:
    """Make a select option of the `models` object, unless there is an option for the model already (row 42)."""
    models = result.get("models")
    options = result.get("configOptions")
    if not is_object(models) or (is_array(options) and any(_is_model(option) for option in options)):
        return
    models = dict(models)
    twins(models, "currentModelId", "availableModels", rows=rows)
    available = models.get("availableModels")
    choices = [choice for model in available if (choice := _model(model))] if is_array(available) else []
    current = models.get("currentModelId")
    if not isinstance(current, str):
        current = ""
    if not choices and current:
        choices = [{"value": current, "name": current}]
    if not choices:
        return
    option: Object = {
        "id": "model",
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": current,
        "options": choices,
    }
    mark(option, SET_BY, "session/set_model")
    result["configOptions"] = [*options, option] if is_array(options) else [option]
    rows.add(42)


def _is_model(option: Any) -> bool:
    return is_object(option) and (option.get("category") == "model" or option.get("id") == "model")


def _model(model: Any) -> Object | None:
    if not is_object(model):
        return None
    value = model.get("modelId", model.get("model_id"))
    if not isinstance(value, str):
        return None
    name, description = model.get("name"), model.get("description")
    choice: Object = {"value": value, "name": name if isinstance(name, str) else value}
    return choice | {"description": description} if isinstance(description, str) else choice
