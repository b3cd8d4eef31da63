"""What another release would do with a log: its loads now and after cleaning, its answers, and the way back.

    rehearse       the complete rehearsal, and its verdict
    logs           a log partition as a release loads it, as it is and as the cleaner leaves it
    faults         loads that fail: now, once the log is cleaned, or possibly if it is cleaned during a load
    answers        what clients get from either release, group by group and offset by offset
    way_back       what the new release writes that the old one cannot read
    features       feature levels with which a release does not start
    readiness      which classic groups can become consumer groups (KIP-848)

No rule for a load is defined here: loads follow the plain rules of `coordinator`, with another profile.
"""
