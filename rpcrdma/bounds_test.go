package rpcrdma

import (
	"fmt"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBoundsTold checks that the bounds are those in the administrator's
// documentation.
func TestBoundsTold(t *testing.T) {
	doc, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	const counters = 1 << 16
	s := &Server{Handler: null, Extensions: new(extensionRecorder).delegationConfig(counters)}
	require.NoError(t, s.init())

	conns := s.parties.Enter(nil)
	most := 1
	for ; !s.parties.Full(conns, most, s.cfg.maxConns); most++ {
		s.parties.Enter(nil)
	}
	part := s.newShares()
	for range 1 << 20 {
		if !s.calls.canRunLocked(part.queue) {
			break
		}
		s.calls.countStartLocked(part.queue)
	}
	const mib = 1 << 20
	for _, row := range []string{
		fmt.Sprintf("connections on RDMA | %d | %d | |", s.cfg.maxConns, most),
		fmt.Sprintf("concurrent calls on RDMA | %d | %d | %d credits |", s.calls.max, part.queue.running, s.cfg.credits),
		fmt.Sprintf("chunks of calls on RDMA, as the buffers for them are allocated | %d MiB | %d MiB | |", s.memory.Limit()/mib, acquirableBytes(part.Part)/mib),
		fmt.Sprintf("messages of calls in flight on RDMA | %d MiB | | |", s.cfg.maxInline/mib),
		fmt.Sprintf("delegation counters | %d MiB | %d MiB | %d KiB |", s.counters.Limit()/mib, acquirableBytes(part.counters)/mib, counters*rdma.WordLen>>10),
	} {
		assert.Contains(t, string(doc), "\n| "+row)
	}
}

// acquirableBytes returns how many bytes a part still grants.
func acquirableBytes(p *fairshare.Part) (n int64) {
	for piece := int64(1 << 40); piece > 0; piece /= 2 {
		for p.TryAcquire(piece) {
			n += piece
		}
	}
	return n
}
