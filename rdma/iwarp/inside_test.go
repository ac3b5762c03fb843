package iwarp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

// TestShortSendsInOnePiece checks that a short Send, together with others in its batch, reaches the
// kernel as one iovec, and that a longer one is not copied: it has an iovec for each posted piece.
func TestShortSendsInOnePiece(t *testing.T) {
	checkLeaks(t)
	for _, tt := range []struct {
		name   string
		data   [][]byte
		pieces int
	}{
		{"short, of several pieces", [][]byte{[]byte("head"), nil, bytes.Repeat([]byte("b"), maxInlineSend-4)}, 1},
		{"empty", nil, 1},
		{"longer", [][]byte{[]byte("head"), bytes.Repeat([]byte("b"), maxInlineSend)}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pieces := make(chan int, 1)
			e, p := connectRaw(t, rawOptions{recvs: 1, crc: true, initiator: true, before: func(c *Conn) {
				wr := &c.sock.tcp.wr
				send := wr.call
				wr.call = func(flags int) (int, unix.Errno) {
					pieces <- len(wr.iov)
					return send(flags)
				}
			}})
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: tt.data}))
			got := p.readSegment() // which checks the CRC
			assert.Equal(t, bytes.Join(tt.data, nil), got[18:])
			assert.Equal(t, tt.pieces, <-pieces)
		})
	}
	b := batch{headers: make([]byte, maxHeaders-maxHeaderLen-mpa.MaxTrailerLen-maxInlineSend, maxHeaders)}
	assert.False(t, b.isFull(0))
	b.headers = append(b.headers, 0)
	assert.True(t, b.isFull(0), "appending must not move the headers, which iovecs refer to")
}
