package nfsserver

import "time"

// Limits of our own.
const (
	// defaultPayload is the most octets of one READ or WRITE: what Linux
	// clients ask for at most.
	defaultPayload = 1 << 20

	// minPayload is a page, so that clients can work; maxPayload is what
	// pooled buffers hold.
	minPayload = 4096
	maxPayload = 4 << 20

	// payloadMultiple is the suggested multiple in octets of READ and
	// WRITE sizes: the pages of the host.
	payloadMultiple = 4096

	// preferredDir is the preferred octets of READDIR results: some
	// hundred entries with their attributes.
	preferredDir = 64 << 10

	// maxGroups is the number of groups beside GID that a call is done
	// with: as many as an AUTH_SYS credential has (RFC 5531, Appendix A).
	maxGroups = 16

	// maxMounts is the number of entries that DUMP can tell. The list is
	// for people; the oldest entry makes room.
	maxMounts = 1024

	// maxWaiting is how many calls may wait for one file system, once one of
	// them has been waiting for stuckTime: all that two clients have under way,
	// and a quarter of what RPC-over-RDMA runs at once.
	maxWaiting = 256
	stuckTime  = 5 * time.Second

	// namesTime is how long a call waits for the name of a client that was
	// not seen before. Then the client is told to come again.
	namesTime = 5 * time.Second

	// verdictTime is how long a connection's rights stand that depend on
	// names.
	verdictTime = time.Minute
)
