package iwarp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestShortSendsInOnePiece checks that the kernel gets a short Send, and the Sends
// that leave with it, as one piece of memory, and a longer one as it was posted.
func TestShortSendsInOnePiece(t *testing.T) {
	world(t)
	for _, tt := range []struct {
		name   string
		data   [][]byte
		pieces int
	}{
		{"short, of several pieces", [][]byte{[]byte("head"), nil, bytes.Repeat([]byte("b"), maxInside-4)}, 1},
		{"empty", nil, 1},
		{"longer", [][]byte{[]byte("head"), bytes.Repeat([]byte("b"), maxInside)}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pieces := make(chan int, 1)
			e, p := againstRaw(t, raw{recvs: 1, crc: true, initiator: true, before: func(c *Conn) {
				wr := &c.sock.tcp.wr
				send := wr.call
				wr.call = func(flags int) (int, unix.Errno) {
					pieces <- len(wr.iov)
					return send(flags)
				}
			}})
			require.NoError(t, e.Post(rdma.WR{Op: rdma.OpSend, Data: tt.data}))
			got := p.segment() // its CRC is right
			assert.Equal(t, bytes.Join(tt.data, nil), got[18:])
			assert.Equal(t, tt.pieces, <-pieces)
		})
	}
	b := batch{headers: make([]byte, maxHeaders-maxHeaderLen-mpa.MaxTrailerLen-maxInside, maxHeaders)}
	assert.False(t, b.full(0))
	b.headers = append(b.headers, 0)
	assert.True(t, b.full(0), "the headers must stay where they are")
}
