package iwarp

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// cards holds the requests of RDMA cards as initiators: the frames that Linux's
// drivers cxgb4 and irdma send; for irdma also with open depths and with
// Markers in its direction.
var cards = map[string]struct {
	flags    byte
	ird, ord uint16 // with the flags A, B, C, D
	reply    []byte
	rtr      byte // opcode that the card's indication then has
}{
	"cxgb4":               {0x50, 0x8020, 0x4020, enhancedFrame(true, 0x50, 0x8020, 0x4020), 1},
	"irdma":               {0x50, 0x8000 | 32, 0xc000 | 32, enhancedFrame(true, 0x50, 0x8020, 0xc020), 1},
	"irdma, out of order": {0xd0, 0x8000 | 0x3fff, 0xc000 | 0x3fff, enhancedFrame(true, 0x50, 0xbfff, 0xffff), 0},
	"revision 1 of cxgbe": {0x40, 0, 0, plainFrame(true, 0x40), 3},
}

// TestCardConnects checks that a card connects, gets its RTR indication served,
// and exchanges messages, by Send, Write and Read, with CRCs and, in its
// direction, Markers (R5044-4.3-1, R5044-4.4-6, R6581-9.1-11, R6581-9.1-13,
// R6581-9.2-2).
func TestCardConnects(t *testing.T) {
	for name, card := range cards {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			ln, p := rawInitiator(t, Config{CRC: mpa.CRCAuto})
			p.crc, p.from.Markers = true, card.flags&0x80 != 0
			if card.rtr == 3 {
				p.writeBytes(plainFrame(false, card.flags))
			} else {
				p.writeBytes(enhancedFrame(false, card.flags, card.ird, card.ord))
			}
			e := acceptPeer(t, ln, rdma.ConnConfig{Recvs: 8})
			assert.Equal(t, card.reply, p.readBytes(len(card.reply)))
			assert.False(t, ParsesStream(e.Peer()))

			reads := uint32(0)
			switch card.rtr {
			case 0:
				p.sendSegments(writeSeg(true, 1, 0, nil))
			case 1:
				reads++
				p.sendSegments(requestSeg(1, rdmap.ReadRequest{SinkSTag: 1, SinkTO: 2}))
				assert.Equal(t, responseSeg(true, 1, 2, nil), p.readSegment())
			}
			mem, done := patternBytes(5000), make(completionWaiter, 2)
			r, err := e.Register(mem, rdma.RemoteRead|rdma.RemoteWrite)
			require.NoError(t, err)
			for msn := range uint32(5) {
				want := patternBytes(1000 + int(msn)*97)
				p.sendSegments(writeSeg(true, r.STag(), 0, want), sendSeg(true, msn+1, 0, want[:100]))
				assert.Equal(t, want[:100], e.inbox.nextMessage(t))
				assert.Equal(t, want, mem[:len(want)])
				p.sendSegments(requestSeg(reads+msn+1, rdmap.ReadRequest{SinkSTag: 5, Size: 5000, SourceSTag: r.STag()}))
				_, got := p.readResponse()
				assert.Equal(t, mem, got)

				sink := make([]byte, 700)
				require.NoError(t, e.Post(
					rdma.WR{Op: rdma.OpRead, Data: [][]byte{sink}, Done: done},
					rdma.WR{Op: rdma.OpSend, Data: [][]byte{want[:1000]}, Done: done},
				))
				req := p.expectReadRequest()
				assert.Equal(t, sendSeg(true, msn+1, 0, want[:1000]), p.readSegment())
				p.sendSegments(responseSeg(true, req.SinkSTag, req.SinkTO, want[:700]))
				require.NoError(t, done.wait(t).Err)
				require.NoError(t, done.wait(t).Err)
				assert.Equal(t, want[:700], sink)
			}
			r.Deregister()
		})
	}
}

// TestConnectToCard checks a connection to a card, which requires CRCs, and
// Markers in its direction, and takes an RTR indication by a Read or by a Write
// (R6581-9.1-12, R6581-9.1-14, R6581-9.2-7).
func TestConnectToCard(t *testing.T) {
	for name, ord := range map[string]uint16{"Read": 0x4000 | 0x3fff, "Write": 0x8000 | 0x3fff} {
		for _, flags := range []byte{0x50, 0xd0} {
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				in := newInbox()
				p, _, result := rawResponder(t, Config{CRC: mpa.CRCOff, PeerToPeer: true}, rdma.ConnConfig{Handler: in, Recvs: 4})
				p.crc, p.from.Markers = true, flags&0x80 != 0
				p.writeBytes(enhancedFrame(true, flags, 0x8000|0x3fff, ord))
				rtr := p.readSegment()
				if name == "Read" {
					assert.Equal(t, byte(0x41), rtr[1])
					p.sendSegments(responseSeg(true, 0, 0, nil))
				} else {
					assert.Equal(t, writeSeg(true, 0, 0, nil), rtr)
				}
				got := <-result
				require.NoError(t, got.err)
				assert.Equal(t, 128, got.c.Params().IRD)
				assert.Equal(t, 128, got.c.Params().ORD)
				for msn := range uint32(3) {
					want := patternBytes(900)
					require.NoError(t, got.c.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{want}}))
					assert.Equal(t, sendSeg(true, msn+1, 0, want), p.readSegment())
					p.sendSegments(sendSeg(true, msn+1, 0, want))
					assert.Equal(t, want, in.nextMessage(t))
				}
				require.NoError(t, got.closeResult(t))
			})
		}
	}
}
