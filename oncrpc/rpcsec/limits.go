package rpcsec

import "time"

// Implementation limits.
const (
	// window is the number of a context's highest sequence numbers that may be in flight.
	// It is larger than the number of calls on all a client's connections, because a call
	// below it is dropped (RFC 2203, Section 5.3.3.1).
	window = 2048

	// defaultMaxContexts bounds the contexts. Each takes some KiB.
	defaultMaxContexts = 65536

	// maxExpiredRemovals is the number of expired contexts that are removed when one is
	// established.
	maxExpiredRemovals = 8

	// handleLen is the length in bytes of a context handle. Handles are random, so that
	// they cannot be guessed.
	handleLen = 16

	// maxName is the maximum length in bytes of a principal's name, which is kept with
	// each context and by programs above.
	maxName = 1024

	// maxAccepts bounds the tokens from unknown initiators that are being verified, which
	// takes much more time than a call.
	maxAccepts = 64

	// maxToken is the maximum length in bytes of a token: a ticket may contain a user's
	// many groups.
	maxToken = 64 << 10

	// skew is the time for which a context outlives its credential: clocks may differ by
	// up to that.
	skew = 5 * time.Minute

	// maxRefreshes is the number of new contexts that a call may establish because the
	// server lacks the old one.
	maxRefreshes = 2

	// maxTokenAge is the time that a client's token may wait to be sent. A Kerberos
	// server rejects a token that is older than five minutes by its own clock.
	maxTokenAge = time.Minute

	// minContextLife is the minimum time for which a client uses a new context, even if
	// its credential has expired by this host's clock: the mechanism may use the KDC's
	// clock while this host's is ahead. Otherwise each call would establish a new
	// context.
	minContextLife = 5 * time.Second

	// maxRestarts is the number of times that a client starts establishing a context
	// again because the connection was lost.
	maxRestarts = 8

	// maxRounds bounds the calls that establish a context.
	maxRounds = 10

	// maxNumbers is the number of a call's last sequence numbers that a client keeps to
	// match the reply.
	maxNumbers = 8
)
