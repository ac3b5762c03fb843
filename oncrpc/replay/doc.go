// Package replay caches the replies to calls that must not be executed twice, and sends
// them again when calls are retransmitted. It must not know programs or transports: the
// caller selects the procedures.
package replay
