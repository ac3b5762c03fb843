package rpctls

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// TestHeld checks that the writers of a party, whose peers do not read, hold no more
// memory than the bound says, and that all bytes arrive once the peers read.
func TestHeld(t *testing.T) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	const long, many = 2, 6
	r.server.memory = fairshare.NewMemory(2*long*longCost, long*longCost, nil)
	r.server.writers = fairshare.NewParties(r.server.memory.Part)
	c := newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}})
	content := make([]byte, 8<<20) // more than the sockets take
	rand.Read(content)
	var writing, reading sync.WaitGroup
	var clients, servers []*Conn
	for range many {
		client, server := r.handshakeOK(c)
		clients, servers = append(clients, client), append(servers, server)
		writing.Go(func() {
			n, err := server.WriteBuffers(&net.Buffers{content[:1000], content[1000:1001], content[1001:]})
			assert.NoError(t, err)
			assert.EqualValues(t, len(content), n)
		})
	}
	require.Eventually(t, func() bool {
		for _, s := range servers {
			if s.wire.mu.TryLock() { // otherwise it waits for its peer
				s.wire.mu.Unlock()
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	assert.EqualValues(t, long*longCost, r.server.memory.InUse())
	for _, client := range clients {
		reading.Go(func() {
			got := make([]byte, len(content))
			_, err := io.ReadFull(client, got)
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(content, got))
		})
	}
	reading.Wait()
	writing.Wait()
	assert.Zero(t, r.server.memory.InUse())
}

// TestHeldSizes checks how much memory a writer takes: as little as a call that is not
// counted for few bytes, and if the long ones are used up.
func TestHeldSizes(t *testing.T) {
	memory := fairshare.NewMemory(longCost, longCost, nil)
	first, second := &recordWire{memory: memory.Part()}, &recordWire{memory: memory.Part()}
	for _, tt := range []struct {
		w            *recordWire
		n, record    int
		most         int // bytes of memory
		long, finish bool
	}{
		{first, 100, shortRecord, 4 << 10, false, true},
		{first, 1 << 20, maxRecordContent, 136 << 10, true, false},
		{second, 1 << 20, shortRecord, 4 << 10, true, true},
	} {
		assert.Equal(t, tt.record, tt.w.holdRecords(tt.n))
		assert.LessOrEqual(t, buf.Size(cap(tt.w.held.B)), tt.most)
		assert.Equal(t, tt.long, memory.InUse() > 0)
		if tt.finish {
			tt.w.releaseLocked()
		}
	}
	first.releaseLocked()
	assert.Zero(t, memory.InUse())
}
