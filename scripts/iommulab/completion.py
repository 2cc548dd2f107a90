# SPDX-License-Identifier: GPL-2.0-or-later
"""iommulab completion: a shell's completion, made from the parsers."""

import argparse

from . import experiment, machine, modes, result, suites
from .errors import OK

# Words for options that take one of a fixed set, or a list of them.
WORDS = {
    "--machine": tuple(machine.MACHINES), "--mode": tuple(machine.MODES),
    "--workload": result.WORKLOADS, "--suite": tuple(suites.SUITES),
    **{f"--{knob.replace('_', '-')}": tuple(found.modes)
       for knob, found in modes.KNOBS.items()},
}
FOLDERS = ("--output",)

SCRIPT = """\
# bash completion for iommulab, made by 'iommulab completion bash'.
# Use it once: eval "$(./iommulab completion bash)"; for good: write it to
# ~/.local/share/bash-completion/completions/iommulab

_iommulab()
{{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    local verb= word at options= words= head=

    for ((at = 1; at < COMP_CWORD; at++)); do
        word=${{COMP_WORDS[at]}}
        [[ $word == -* ]] || {{ verb=$word; break; }}
    done

    # The value of an option; of a list, its last word.
    words=
    case $prev in
{values}
    esac
    if [[ -n $words ]]; then
        if [[ $words == @folder ]]; then
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -d -- "$cur"))
            return
        elif [[ $words == @file ]]; then
            compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -f -- "$cur"))
            return
        elif [[ $words == @any ]]; then
            return
        fi
        [[ $cur == *,* ]] && head=${{cur%,*}},
        COMPREPLY=($(compgen -P "$head" -W "$words" -- "${{cur##*,}}"))
        return
    fi

    case $verb in
{verbs}
    *) options="-h --help"; words="{names}";;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -W "$words" -- "$cur") $(
            [[ -n $verb ]] && compgen -f -- "$cur"))
    fi
}}
complete -F _iommulab iommulab ./iommulab
"""


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "completion", help="print a shell's completion of this command",
        description="Print the completion of this command for a shell: "
                    "eval \"$(./iommulab completion bash)\".")
    parser.add_argument("shell", choices=("bash",),
                        help="the shell: bash")
    parser.set_defaults(func=main)


def main(args):
    from . import cli       # which knows this module
    print(script(cli.parser()), end="")
    return OK


def _verbs(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def _value(option, action):
    """What the value of an option may be, as the script has it."""
    if action.choices:
        return " ".join(map(str, action.choices))
    if WORDS.get(option):
        return " ".join(WORDS[option])
    if option in FOLDERS:
        return "@folder"
    if action.metavar in ("FILE", "PATH"):
        return "@file"
    return "@any"


def script(parser):
    """The script for bash."""
    values, verbs = {}, []
    for name, sub in _verbs(parser).items():
        options = []
        positional = " ".join(_verbs(sub))
        for action in sub._actions:
            options += action.option_strings
            if action.option_strings and action.nargs != 0:
                for option in action.option_strings:
                    values.setdefault(_value(option, action), set()).add(
                        option)
            elif action.choices and not action.option_strings \
                    and not positional:
                positional = " ".join(map(str, action.choices))
        if name in ("sweep", "report"):
            positional = " ".join(experiment.names())
        verbs.append(f'    {name}) options="{" ".join(options)}"; '
                     f'words="{positional}";;')
    lines = [f'    {"|".join(sorted(options))}) words="{words}";;'
             for words, options in sorted(values.items())]
    return SCRIPT.format(values="\n".join(lines), verbs="\n".join(verbs),
                         names=" ".join(_verbs(parser)))
