"""Generates any number of prompts from words, for measurements that need more prompts than a file has."""

from collections.abc import Iterator
from random import Random

from app.values.messages import Message

_NAMES = [
    "Lily", "Tom", "Ben", "Mia", "Sam", "Anna", "Max", "Sue", "Tim", "Lucy", "Jack", "Amy", "Bob", "Sara",
    "Leo", "Zoe",
]  # fmt: skip
_THINGS = ["ball", "kite", "boat", "cake", "hat", "book", "drum", "car", "flower", "box", "stone", "bell"]
_PLACES = ["park", "garden", "forest", "beach", "zoo", "shop", "farm", "house", "school", "lake"]
_LOOKS = ["big", "small", "red", "blue", "old", "new", "shiny", "sad", "happy", "lost"]
_STORIES = (
    "Once upon a time, {name} had a {look} {thing}.",
    "One day, {name} went to the {place} with {other}.",
    "{name} and {other} were playing in the {place} when",
    "The {look} {thing} was lying in the {place}. {name}",
    '"{other}, can I have your {thing}?" asked {name}.',
    "It was raining, so {name} stayed at the {place} and",
    "{name} was very {look} because the {thing}",
)

_COMMANDS = [
    "ls", "cd", "cp", "mv", "rm", "tar", "sed", "awk", "grep", "find", "curl", "ssh", "chmod", "du", "df", "ps",
    "kill", "head", "tail", "sort",
]  # fmt: skip
_TOPICS = [
    "music", "football", "dogs", "books", "films", "history", "cooking", "gardens", "space", "trains", "chess",
    "weather",
]  # fmt: skip
_CITIES = ["Berlin", "Paris", "Rome", "Madrid", "Lisbon", "Vienna", "London", "Prague", "Dublin", "Athens"]
_TASKS = (
    "returns the sum of a list", "reverses a string", "counts the words of a text",
    "checks if a number is prime", "finds the largest of three numbers", "removes duplicates from a list",
)  # fmt: skip
_LANGUAGES = ["Python", "JavaScript", "Java", "C", "Ruby", "Go"]
_QUESTIONS = (
    "What does the command `{command}` do?",
    "How do I use {command} and {command2} together?",
    "What do you like about {topic}?",
    "Tell me something about {topic} in {city}.",
    "Find me a flight from {city} to {city2}.",
    "I want to book a table for {number} in {city}.",
    "Write a {language} function that {task}.",
    "Write a story about a {look} {thing} in {city}.",
    "Hello! My name is {name} and I like {topic}.",
    "Answer from the sources and cite them like [1].\n\n[1] The {thing} of {city} was made by {name} in "
    "18{number}0. It is {look}.\n\n[2] Every {thing2} in {city2} belongs to {other}.\n\n"
    "Question: Who made the {thing} of {city}?",
)


def stories(seed: int) -> Iterator[str]:
    """Return beginnings of children's stories, without end."""
    return _filled(_STORIES, seed)


def questions(seed: int) -> Iterator[tuple[Message, ...]]:
    """Return first messages of chats, without end: commands, code, small talk, tasks and sources to quote."""
    return ((Message("user", text),) for text in _filled(_QUESTIONS, seed))


def _filled(templates: tuple[str, ...], seed: int) -> Iterator[str]:
    source = Random(seed)
    while True:
        yield source.choice(templates).format(**_words(source))


def _words(source: Random) -> dict[str, object]:
    name, other = source.sample(_NAMES, 2)
    thing, thing2 = source.sample(_THINGS, 2)
    city, city2 = source.sample(_CITIES, 2)
    command, command2 = source.sample(_COMMANDS, 2)
    return {
        "name": name, "other": other, "thing": thing, "thing2": thing2, "city": city, "city2": city2,
        "command": command, "command2": command2, "place": source.choice(_PLACES),
        "look": source.choice(_LOOKS), "topic": source.choice(_TOPICS), "task": source.choice(_TASKS),
        "language": source.choice(_LANGUAGES), "number": source.randint(2, 9),
    }  # fmt: skip
