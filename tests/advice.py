"""What the app advises: each sentence of its sources that tells what to do, and each command that it names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
VERBS = (
    "accept|add|allow|ask|bring|cancel|change|check|choose|close|convert|copy|correct|delete|download|empty|enter|"
    "export|find|free|get|give|install|join|leave|list|load|log in|look|make|merge|move|name|open|paste|put|quit|"
    "regenerate|reload|remove|report|restart|resume|run|save|send|set|shorten|simplify|split|start|stop|take|try|turn|"
    "type|unset|update|use|wait|write"
)
ADVISES = re.compile(rf"(?:^|[.:;,)] |\b(?:or|and|then|please) )(?:{VERBS})\b|`python run\.py", re.IGNORECASE)
NO_SENTENCE = re.compile(
    r"SELECT |INSERT |UPDATE |DELETE |^<|\bdocs/|^[A-Z]?[a-z]+ [a-z, ]+\.$|^\w+(, \w+)+$"
)
COMMAND = re.compile(r"python run\.py((?: +(?:'[^']*'|\"[^\"]*\"|[^\s`'\"|&;>#),]+))*)")
SHORTEST = 20
HUB = "no test: what only Hugging Face, or a person's account there, can put right"
CARD = "no test: what only another GPU, driver, torch or compiler can put right"
SERVER = "no test: what only somebody else's server can put right"
SYSTEM = "no test: what only the person's system can put right (its memory, programs, packages, rights)"
AGAIN = "no test: it is done once more, after what nobody can bring about on purpose"
WORDS = "no advice: words for a model, a label, an example, or a hint that no error came before"
KINDS = {
    "tests/tools/test_importing.py": r"""
        Paste it with their names
        Paste the whole file
        paste only the mcpServers part
        Check its quotation marks
    """,
    "tests/tools/test_mcp_servers.py": r"""
        The arguments have more than
    """,
    "tests/tools/test_hostile_addresses.py": r"""
        add it as mcpServers JSON
    """,
    "tests/ui/settings/test_tools.py": r"""
        turn it on under Settings → Tools
        restart it under Settings → Tools
    """,
    "test_a_damaged_database_is_rescued_or_restored_as_advised": r"""
        Quit Foresight\. Then
        chats rescue
        chats restore
        moved? it away
        and the file was kept
    """,
    "test_what_is_in_the_way_is_moved_away_as_advised": r"""
        is not a database of Foresight
        Move it to another place
    """,
    "test_the_program_that_locks_is_closed_as_advised": r"""
        Another program has locked
    """,
    "test_a_newer_database_leaves_another_folder": r"""
        last used by a newer version
    """,
    "tests/database/test_database.py": r"""
        is no longer there\. Put its folder back
        [Ff]ree some
        delete something there
        make room
    """,
    "test_while_the_app_runs_a_rescue_waits_until_it_is_quit": r"""
        Quit it, and try again
        Use that window
    """,
    "test_a_staged_backup_is_in_place_after_the_next_start": r"""
        Saved all chats and documents
    """,
    "test_a_command_that_is_refused_works_as_advised": r"""
        Choose the database
        Choose a file (that|in it)
        Choose another file
        another file (with|for) --
        chat app exported
        that Foresight exported
        Foresight or Open WebUI exported
        check (its name|the path)
        files, not folders
        enter a folder, an id
        or 'demo'
        models list`
        Choose from
        lists? of it
        Type some words
        Add some with
        --title names the text
        Existing collections
        Give either
        Choose auto
        choose auto
        --catalogue
        Write one object
        The prompts file
        Shorten it
        needs \.prompt\.
    """,
    "no person follows it: an instruction to the model": r"""
        To call a function, write
    """,
    "no test: a file that a newer or broken app wrote": r"""
        Export them again
        Update Foresight to import it
    """,
    "tests/database/test_rescuing.py": r"""
        damaged database\. Add it again
        damaged database\. Add it again to
    """,
    "test_another_data_folder_is_taken_as_advised": r"""
        --data-dir
    """,
    "test_rights_are_taken_away_by_the_command_of_the_self_check": r"""
        Run: chmod 700
    """,
    SYSTEM: r"""
        The program \{\} of \{\} was not found
        check (its|the file's|its folder|the) ?(permissions|folder)
        Check the permissions
        check its folder
        remove it yourself
        yourself\.$
        close (other )?(the )?programs
        [Mm]emory
        Install a Python
        install the app again
        README
        shorter context
        shorter chat
        keep models on another
        another token
    """,
    "tests/ui/chat/test_view.py": r"""
        Load it in the same revision
    """,
    "tests/ui/test_key_in_browser.py": r"""
        Start without --no-key
        this address is not Foresight's
        This address is not
    """,
    "test_another_port_is_taken_as_advised": r"""
        choose another one above 1023
        is not an address of this machine
    """,
    "tests/commands": r"""
        --preset, --window
        --device and --devices
        --api-key
        --no-key
        --raw
        --rows
        Give it once
        Leave (it|\{\}) out
        nothing at temperature 0
        that (no key has|a key cannot have)
        Quit it and start again
    """,
    "tests/labs/test_bench.py": r"""
        is not a run of a benchmark
        Download the questions
        cannot be used \(\{\}\)\. Choose another folder
    """,
    CARD: r"""
        --devices
        --offload
        torchrun
        one device
        pip (un)?install
        driver
        gcc
        cu1\d\d
        CUDA
        from the environment
        quantisation
        --device cpu
        GPU (could|stopped|cannot)
        restart Foresight
        C compiler
        could not be made
        a GPU
        leave that device out
    """,
    "tests/commands/test_documents.py": r"""
        Standard input is not text
        embedding model
        semantic search
        Download it first
        Download \{\}
    """,
    "tests/desktop": r"""
        pywebview
        start without --native
    """,
    "test_a_chat_that_changed_is_looked_at_and_changed_again": r"""
        changed in another window
        no longer there\. Choose another
        no longer there: choose another
    """,
    "test_what_cannot_be_read_is_added_as_text": r"""
        [Aa]dd (it again|that|what comes|the parts|the files)
        split it
        paste (it in pieces|some words|the part)
        Paste text
        add that file
    """,
    "tests/documents/test_documents.py": r"""
        choose another name
        A collection needs a name
        belong to chats
        look again when it is ready
        try it again in the list
    """,
    "tests/commands/test_options.py": r"""
        changes nothing without
        Give a value for it
    """,
    "tests/conversation": r"""
        Wait until it
        stop it first
        Write one(,| first)
        write one first
        at least one word
        [Ll]eave (out|them)
        Load a model with a longer
        Send the message again
    """,
    "tests/engine/sampling/test_grammar_mask.py": r"""
        Correct it
        Change it, or
        change it, or leave
        simplify the grammar
        regenerate it
        [Aa]sk for no JSON
        forced tool
    """,
    "tests/ui/settings/test_data.py": r"""
        was not uploaded
        can't be read \(\{\}\)\. Choose it again
    """,
    "tests/ui/frame/test_option_controls.py": r"""
        type a number
    """,
    "tests/ui/chat": r"""
        Type a name for the preset
        Attach files to another chat
    """,
    "tests/ui": r"""
        no such folder\. Type its whole path
        Reload the page
        Open Models again
        Open the address that it printed
    """,
    "tests/api": r"""
        send at most
        send a part
        send the text itself
        send (less|fewer) in one request
        send all items
        send it uncompressed
        send instructions
        sent with
        body must be
        tool_choice
        GET /v1/models
        send ids
        give it as the browser
        Turn it on in Foresight
    """,
    "tests/ui/documents/test_view.py": r"""
        Turn off “Offline” under
    """,
    "tests/models_registry": r"""
        [Dd]ownload (it|the model|this file|the one) ?(again|that Settings)?
        get (the model's own|this file)
        get it again
        [Cc]hoose (another|a smaller|a chat|a text|a model|an installed|the same|the base|the file|the folder)
        [Cc]hoose (it in safetensors|the original model|a (little-endian|newer) file)
        give the files names
        get the parts yourself
        [Cc]hoose (one of (them|its)|one (that|from)|a folder|an EAGLE|none|no draft|the quantisation|a lower)
        or none
        choose the model
        merge it into
        use the model's safetensors
        [Aa]dd the model's (tokenizer|own|\{\})
        choose one of them by its path
        run `git lfs pull`
        delete (it|them|\{\}|what)
        resume
        Delete \{\}
        get all of them
        load \{\}, and choose this
    """,
    HUB: r"""
        If HF_TOKEN is set
        log in
        models login
        Log in
        copy one from
        accept
        spelling
        enter (one|its id)
        leave it out
        HF_HUB_OFFLINE
        [Tt]urn Offline off under
        cancel
        again later
        few minutes
        another network
        could not be downloaded
        Can't reach Hugging
        Check HTTPS_PROXY
    """,
    AGAIN: r"""
        [Tt]ry again
        try it again
        again\.$
        Ask again
        once more
        try again
    """,
    SERVER: r"""
        ended unexpectedly(\{\})?\. Look at its log
        Check its command
        asks for a login
        the address
        that address
        Enter (the|that) (one|address|path)
        look at its log
        the server
        List its models
        key contains characters
        https://
        no models
        turn Offline off
        Regenerate the reply
        \{\} ended the reply
        \{\} was removed
    """,
    "no test: a bug of ours": r"""
        Please report
        The log has the details
        bug in Foresight
    """,
    "tests/ui/race": r"""
        race
        Race
    """,
    "tests/remote": r"""
        is not a model id
        is not an address
        name or a password in it
    """,
    WORDS: r"""
        ^Check \[
        ^start: \(?(form|\{\})
        ^Write a
        ^Summarise our
        ^Find me
        ^Copy the
        ^Search 
        ^Send 
        ^Here is
        ^Models
        ^This model runs
        sampling settings
        ^Write HTML
        ^Recognised in pictures
        live numbers
        close enough
        , run in addition
        Everybody
        llm logs path
        config\.yaml
        settings\.json; enter
        please feel free
    """,
}
"""Which tests provoke a kind of advice and do what is right then, or why none can; a pattern a line."""


def sentences() -> Iterator[tuple[str, str]]:
    """The file and the text of each piece of advice; {} stands for what is filled in."""
    for path in sorted((CHECKOUT / "app").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skipped = {id(part) for node in ast.walk(tree) for part in _no_messages(node)}
        for node in ast.walk(tree):
            text = " ".join(_text(node).split()) if id(node) not in skipped else ""
            if (
                len(text) >= SHORTEST
                and " " in text
                and ADVISES.search(text)
                and not NO_SENTENCE.search(text)
            ):
                yield path.relative_to(CHECKOUT).as_posix(), text


def commands() -> Iterator[tuple[str, str]]:
    """The file and the words of each command line that a message or a document names."""
    for pattern in ("README.md", "docs/*.md", "app/**/*.py", "assets/ui/**/*.html", "assets/ui/**/*.js"):
        for path in sorted(CHECKOUT.glob(pattern)):
            for found in COMMAND.finditer(path.read_text(encoding="utf-8")):
                yield path.relative_to(CHECKOUT).as_posix(), found[1].strip()


def _no_messages(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, the parts of an f-string, and help texts of options."""
    if isinstance(node, ast.Expr):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    if isinstance(node, ast.keyword) and node.arg in ("help", "description", "info", "placeholder"):
        yield from ast.walk(node.value)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""
