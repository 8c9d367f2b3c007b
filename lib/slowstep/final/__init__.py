"""The final configuration: supported and allowed changes, searched together, confirmed, and written as files."""

from slowstep.final.choice import Choice, choose
from slowstep.final.files import write_files
from slowstep.final.options import option_table, options

__all__ = ["Choice", "choose", "option_table", "options", "write_files"]
