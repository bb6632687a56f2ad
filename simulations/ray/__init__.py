"""Ray as a runtime: workers anywhere take spans of users, a tree of tasks merges what they sum."""
