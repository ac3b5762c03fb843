package iwarp

import (
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/quickack"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// countAcks makes a connection count the acknowledgements that it asks for.
func countAcks(n *atomic.Int64) func(*Conn) {
	return func(c *Conn) {
		c.sock.tcp.ackNow = func(fd int) {
			n.Add(1)
			quickack.Send(fd)
		}
	}
}

// TestFPDUInTwoParts checks that a peer with Nagle's algorithm on, which writes an FPDU in two
// small parts, does not wait 40 ms for the acknowledgement of the first one, and that only FPDUs
// which arrive in parts cost a system call for it.
func TestFPDUInTwoParts(t *testing.T) {
	checkLeaks(t)
	for _, crc := range []bool{false, true} {
		var acks atomic.Int64
		e, p := connectRaw(t, rawOptions{initiator: true, crc: crc, recvs: 1000, before: countAcks(&acks)})
		msn := uint32(0)
		fpdu := func(data []byte) []byte {
			msn++
			return p.frameFPDU(sendSeg(true, msn, 0, data))
		}
		for _, n := range []int{1, 100, 4000} {
			p.writeBytes(fpdu(make([]byte, n)), fpdu(make([]byte, n)))
			e.inbox.nextMessage(t)
			e.inbox.nextMessage(t)
		}
		assert.Zero(t, acks.Load(), "whole FPDUs")

		require.NoError(t, p.nc.(*net.TCPConn).SetNoDelay(false))
		var took []time.Duration
		for range 61 {
			begin, b := time.Now(), fpdu([]byte("in two parts"))
			p.writeBytes(b[:20])
			p.writeBytes(b[20:])
			e.inbox.nextMessage(t)
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("answer")}}))
			p.readSegment()
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		assert.Less(t, took[len(took)/2], 30*time.Millisecond, "of most FPDUs; Linux delays an acknowledgement by 40 ms at least")
		assert.NotZero(t, acks.Load())
	}
}
