"""Topics of Kafka that models learn, each message exactly once.

- `messages`: the model and the example of a message, from its bytes.
- `learning`: the messages of one batch, sent to their models as streams whose line numbers are offsets.
- `broker`: the consumer group and the topic of dead letters; it needs the extra `topics`.
- `consumer`: the loop over batches, which commits what was learnt.
"""
