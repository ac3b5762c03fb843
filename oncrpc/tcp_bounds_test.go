package oncrpc

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBoundsTold checks that the operator's documentation states the actual
// bounds.
func TestBoundsTold(t *testing.T) {
	doc, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	s := &Server{Handler: echoMux()}
	s.init()
	party := s.parties.Enter(&net.TCPAddr{})
	most := 1
	for ; !s.parties.Full(party, most, s.maxConns()); most++ {
		s.parties.Enter(&net.TCPAddr{})
	}
	conn, all := party.Own.connParts(s), s.newParts()
	const mib = 1 << 20
	for _, row := range []string{
		fmt.Sprintf("connections over TCP | %d | %d | |", s.maxConns(), most),
		fmt.Sprintf("calls in flight over TCP | %d, plus %d for each connection | %d plus these | %d |", s.callMemory.Limit()/callCost, freeCalls, partOf(all.calls)/callCost, maxCalls),
		fmt.Sprintf("calls above %d KiB, over TCP | %d MiB | %d MiB | %d MiB |", smallRecord>>10, s.requestMemory.Limit()/mib, partOf(all.requests)/mib, partOf(conn.requests)/mib),
		fmt.Sprintf("replies above %d KiB, over TCP: data, listings, ACLs, the lists of MOUNT | %d MiB | %d MiB | %d MiB |", smallRecord>>10, s.replyMemory.Limit()/mib, partOf(all.replies)/mib, partOf(conn.replies)/mib),
	} {
		assert.Contains(t, string(doc), "\n| "+row)
	}
}

// partOf returns how much of a part can be acquired.
func partOf(p *fairshare.Part) (n int64) {
	for piece := int64(1 << 40); piece > 0; piece /= 2 {
		for p.TryAcquire(piece) {
			n += piece
		}
	}
	return n
}
