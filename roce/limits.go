package roce

// Limits of this implementation. The Architecture's own are in package packet.
const (
	// defaultRecvs is how many receives may be posted at a time where the
	// client does not say.
	defaultRecvs = 128

	// maxRecvs bounds what a client may ask for.
	maxRecvs = 1 << 16

	// sendBatch is how many packets are handed to the wire at a time: one
	// system call's worth, in some 70 KiB that are lent meanwhile.
	sendBatch = 16

	// recvBatch is how many datagrams one system call takes. Their buffers
	// are all that a device keeps for what comes in.
	recvBatch = 32

	// socketBuffer is what the kernel is asked to keep of what comes in, in
	// bytes, its own overhead included: a few messages of 64 KiB, cut into
	// packets of 1 KiB. What does not fit is lost, as on any wire.
	socketBuffer = 4 << 20

	// maxQueuePairs and maxRegions bound what a device holds.
	maxQueuePairs = 1 << 16
	maxRegions    = 1 << 16

	// defaultHopLimit is what packets start with where the address does not
	// say; rxe's is the same.
	defaultHopLimit = 64
)

// Limits of the Architecture.
const (
	// maxMessage is the longest message of UC, in bytes.
	maxMessage = 1 << 31

	// controlledQKey is the bit of Q_Keys that only the privileged may set
	// for a queue pair; in a work request it stands for the queue pair's own.
	controlledQKey = 1 << 31

	// defaultPKey is the default partition, with full membership.
	defaultPKey = 0xffff

	// The first two queue pair numbers belong to management.
	firstQP = 2
)
