package iwarp

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// TestAcceptRTR checks that each kind of RTR indication lets the responder
// send, and takes no buffer from the upper layer (R6581-9.2-2).
func TestAcceptRTR(t *testing.T) {
	read := requestSeg(1, rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2, SourceSTag: 0xdeadbeef, SourceTO: math.MaxUint64})
	for name, tt := range map[string]struct {
		ird, ord uint16 // words in the request
		rtr      []byte
		answer   []byte
		msn      uint32 // the next Send has it
	}{
		"Send":  {0xc008, 0, sendSeg(true, 1, 0, nil), nil, 2},
		"Write": {0x8008, 0x8000, writeSeg(true, 1, 0, nil), nil, 1},
		"Read":  {0x8008, 0x4000, read, responseSeg(true, 1, 2, nil), 1}, // R6581-9.1-4
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			ln, p := rawInitiator(t, Config{CRC: mpa.CRCOff})
			p.writeBytes(enhancedFrame(false, 0x10, tt.ird, tt.ord))
			e := acceptPeer(t, ln, rdma.ConnConfig{})
			want := enhancedFrame(true, 0x10, tt.ird&0xc000, tt.ord|8)
			if name == "Read" {
				want[21] = 1
			}
			assert.Equal(t, want, p.readBytes(len(want)))
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{[]byte("hello")}}))
			p.expectSilence(10 * time.Millisecond)
			p.sendSegments(tt.rtr)
			if tt.answer != nil {
				// The answer and the waiting message may leave in either order.
				first, second := p.readSegment(), p.readSegment()
				assert.ElementsMatch(t, [][]byte{tt.answer, sendSeg(true, 1, 0, []byte("hello"))}, [][]byte{first, second})
			} else {
				assert.Equal(t, sendSeg(true, 1, 0, []byte("hello")), p.readSegment())
			}
			require.NoError(t, e.PostRecv(1))
			p.sendSegments(sendSeg(true, tt.msn, 0, nil)) // this Send is for the upper layer
			assert.Empty(t, e.inbox.nextMessage(t))
		})
	}
}

// TestAcceptEmptySend checks that in the client-server model an empty first
// Send is delivered to the upper layer.
func TestAcceptEmptySend(t *testing.T) {
	checkLeaks(t)
	ln, p := rawInitiator(t, Config{CRC: mpa.CRCOff})
	p.writeBytes(wiretest.Hex(t, "mpa/testdata/request-siw.hex"))
	e := acceptPeer(t, ln, rdma.ConnConfig{Recvs: 1})
	p.readBytes(mpa.HeaderLen + mpa.EnhancedLen)
	p.sendSegments(sendSeg(true, 1, 0, nil))
	assert.Empty(t, e.inbox.nextMessage(t))
}
