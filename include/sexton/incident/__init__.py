"""One document about what happened to a group: for a post-mortem, and for the person on call.

broker_logs.py   requests in the logs of brokers (kafka-authorizer.log, kafka-request.log)
callers.py       which of these requests fit an event, and how certain that is
document.py      the document: declared once, for the JSON and the page
gather.py        makes the document from what `sexton explain` found and from what else the input has
masking.py       names as pseudonyms
"""
