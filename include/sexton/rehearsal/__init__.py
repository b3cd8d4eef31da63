"""What another release would do with a log: its loads now and after cleaning, its answers, and the way back.

    rehearse       the whole of it, and the verdict
    logs           a log partition as a release loads it, as it is and as the cleaner leaves it
    faults         loads that fail: now, once cleaned, or only if it is cleaned during a load
    answers        what clients get from either release, group by group and offset by offset
    way_back       what the new release writes that the old one cannot read
    features       feature levels that a release refuses as it starts
    readiness      which classic groups can become consumer groups (KIP-848)

Nothing here has rules of its own for a load: these are the plain rules of `coordinator`, with another profile.
"""
