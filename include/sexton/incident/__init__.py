"""One document about what happened to a group: for a post-mortem, and for whoever is woken up.

broker_logs.py   requests in the logs of brokers (kafka-authorizer.log, kafka-request.log)
callers.py       which of them fit an event, and how sure that is
document.py      the document: declared here once, for the JSON and the page
gather.py        makes it from what `sexton explain` found and from what else the input has
masking.py       names as pseudonyms
"""
