package roce

// Limits of this implementation. The Architecture's own are in package packet.
const (
	// defaultRecvs is the number of receives that may be posted at a time if
	// the client does not specify it.
	defaultRecvs = 128

	// maxRecvs bounds the client's number of receives.
	maxRecvs = 1 << 16

	// sendBatch is the number of packets passed to the wire at a time: one
	// system call, with some 70 KiB of memory held until it returns.
	sendBatch = 16

	// recvBatch is the number of datagrams that one system call receives. A
	// device keeps no other buffers for received datagrams.
	recvBatch = 32

	// socketBuffer is the size of the kernel's socket buffers in bytes,
	// including its own overhead: a few messages of 64 KiB, split into packets
	// of 1 KiB. The kernel drops packets beyond that, as any wire may.
	socketBuffer = 4 << 20

	// maxQueuePairs and maxRegions bound a device's queue pairs and regions.
	maxQueuePairs = 1 << 16
	maxRegions    = 1 << 16

	// defaultHopLimit is the packets' hop limit if the address does not specify
	// one; rxe uses the same.
	defaultHopLimit = 64
)

// Limits in the Architecture.
const (
	// maxMessage is the maximum UC message length, in bytes.
	maxMessage = 1 << 31

	// controlledQKey is the Q_Key bit that only privileged users may set for a
	// queue pair. In a work request the bit means the queue pair's own Q_Key.
	controlledQKey = 1 << 31

	// defaultPKey is the default partition, with full membership.
	defaultPKey = 0xffff

	// The first two queue pair numbers belong to management.
	firstQP = 2
)
