package rpcsec

import "time"

// Limits of our own.
const (
	// window is how many of the newest sequence numbers of a context may be under
	// way. It is larger than the calls of all of a client's connections, because
	// a call below it is dropped (RFC 2203, Section 5.3.3.1).
	window = 2048

	// defaultMaxContexts bounds the contexts. Each takes some KiB.
	defaultMaxContexts = 65536

	// expires is how many expired contexts are removed when one is made.
	expires = 8

	// handleLen is the length in bytes of a context's handle. Handles are random,
	// so that nobody guesses the handle of another's context.
	handleLen = 16

	// maxName is the length in bytes of the longest name of a principal, which is
	// kept with each context and by programs above.
	maxName = 1024

	// maxAccepts bounds the tokens of unknown initiators that are being examined,
	// which takes much more time than a call.
	maxAccepts = 64

	// maxToken is the length in bytes of the longest token: a ticket with the
	// many groups of its user.
	maxToken = 64 << 10

	// skew is how long a context outlives its credential: clocks differ by up to
	// that much.
	skew = 5 * time.Minute

	// maxRefreshes is how many new contexts a call makes because the server does
	// not have the old one.
	maxRefreshes = 2

	// maxTokenAge is how long a client's token may wait to be sent. A server of
	// Kerberos refuses a token that is older than five minutes by its own clock.
	maxTokenAge = time.Minute

	// leastLife is how long a client uses a new context although its credential has
	// ended: the mechanism may know the KDC's clock, and make contexts although this
	// host's clock is ahead. Otherwise each call would make another.
	leastLife = 5 * time.Second

	// maxResent is how many times a client begins anew to make a context, because
	// the connection was lost meanwhile.
	maxResent = 8

	// maxRounds bounds the calls that make a context.
	maxRounds = 10

	// maxNumbers is how many of a call's newest sequence numbers a client keeps, to
	// match the reply.
	maxNumbers = 8
)
