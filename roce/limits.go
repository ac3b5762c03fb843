package roce

// Limits of this implementation. The Architecture's own are in package packet.
const (
	// defaultRecvs is the number of receives that may be posted at a time if
	// the client does not say.
	defaultRecvs = 128

	// maxRecvs bounds the client's number of receives.
	maxRecvs = 1 << 16

	// sendBatch is the number of packets that the wire gets at a time: one
	// system call, with some 70 KiB of memory lent until it returns.
	sendBatch = 16

	// recvBatch is the number of datagrams that one system call takes. A device
	// keeps no other buffers for received datagrams.
	recvBatch = 32

	// socketBuffer is the size in bytes of the kernel's socket buffers, its own
	// overhead included: a few messages of 64 KiB, cut into packets of 1 KiB.
	// The kernel drops packets beyond that, as any wire may.
	socketBuffer = 4 << 20

	// maxQueuePairs and maxRegions bound the queue pairs and regions of a
	// device.
	maxQueuePairs = 1 << 16
	maxRegions    = 1 << 16

	// defaultHopLimit is the hop limit of packets if the address does not say;
	// rxe uses the same.
	defaultHopLimit = 64
)

// Limits of the Architecture.
const (
	// maxMessage is the longest message of UC, in bytes.
	maxMessage = 1 << 31

	// controlledQKey is the bit of Q_Keys that only privileged users may set
	// for a queue pair. In a work request the bit means the queue pair's own
	// Q_Key.
	controlledQKey = 1 << 31

	// defaultPKey is the default partition, with full membership.
	defaultPKey = 0xffff

	// The first two queue pair numbers belong to management.
	firstQP = 2
)
