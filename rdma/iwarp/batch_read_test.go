package iwarp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestPlacedAhead checks that every byte reaches its place, for any
// segmentation and any following messages.
func TestPlacedAhead(t *testing.T) {
	const size = 1 << 20
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			checkLeaks(t)
			random := rand.New(rand.NewPCG(seed, 8))
			e, p := connectRaw(t, rawOptions{recvs: 1000, recvSize: 1 << 20, initiator: true, crc: seed%3 == 0})
			regions := make([]rdma.Region, 3)
			mem, want := make([][]byte, 3), make([][]byte, 3)
			access := []rdma.Access{rdma.RemoteWrite | rdma.Scratch, rdma.RemoteWrite | rdma.Scratch, rdma.RemoteWrite}
			for i := range regions {
				mem[i], want[i] = make([]byte, size), make([]byte, size)
				var err error
				regions[i], err = e.Register(mem[i], access[i])
				require.NoError(t, err)
			}
			written := make([]int, 3) // where the written part ends
			var segments [][]byte
			sends := uint32(0)
			usual := []int{20_000, 40_001, 60_000}[random.IntN(3)]
			for range 40 {
				i := random.IntN(3)
				at := written[i]
				if random.IntN(3) == 0 {
					at = random.IntN(written[i] + 1)
				}
				// Usually all segments but the last have the same length.
				for n := random.IntN(6 * usual); n >= 0 && at < size; n -= usual {
					k := min(n, usual, size-at)
					last := n < usual
					if random.IntN(20) == 0 { // an unusual segment length
						k = min(1+random.IntN(usual), size-at)
						last = last && k == n
					}
					payload := make([]byte, k)
					for j := range payload {
						payload[j] = byte(random.Uint32())
					}
					copy(want[i][at:], payload)
					segments = append(segments, writeSeg(last, regions[i].STag(), uint64(at), payload))
					at += k
				}
				written[i] = max(written[i], at)
				if random.IntN(2) == 0 {
					sends++
					segments = append(segments, sendSeg(true, sends, 0, bytes.Repeat([]byte{byte(sends)}, random.IntN(500))))
				}
			}
			sends++
			segments = append(segments, sendSeg(true, sends, 0, nil))
			var sent sync.WaitGroup
			sent.Go(func() { p.sendSegments(segments...) })
			t.Cleanup(sent.Wait) // also after a failure, before it closes the connection
			for i := range sends {
				b := e.inbox.nextMessage(t)
				assert.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, len(b)), b)
			}
			for i, r := range regions {
				r.Deregister()
				n := written[i]
				if access[i]&rdma.Scratch == 0 {
					n = size // the rest must be unchanged
				}
				assert.True(t, bytes.Equal(want[i][:n], mem[i][:n]), i)
			}
			e.Abort(nil)
		})
	}
}
