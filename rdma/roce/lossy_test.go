package roce

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// lossyMessages returns how many messages each network gets; ROCE_MESSAGES sets
// another number.
func lossyMessages(t *testing.T) int {
	if text := os.Getenv("ROCE_MESSAGES"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	return racetest.Of(200_000, 20_000)
}

// TestLossyNetwork sends messages over networks that lose, repeat and reorder.
// It checks that received messages are complete, that the others are counted,
// and that nothing is placed outside the region.
func TestLossyNetwork(t *testing.T) {
	for _, chance := range []float64{0, 0.001, 0.01, 0.1, 0.3} {
		t.Run(fmt.Sprintf("%.1f%%", 100*chance), func(t *testing.T) { runLossy(t, chance, lossyMessages(t)) })
	}
}

const (
	lossyMTU    = 256
	lossyLong   = 5 * lossyMTU // bytes in the longest message
	lossyMargin = 64           // bytes on both sides next to the region
)

// lossyFill fills a message with its number.
func lossyFill(b []byte, number uint32) {
	for ; len(b) >= 4; b = b[4:] {
		binary.BigEndian.PutUint32(b, number)
	}
}

// A lossyCheck checks received messages. The number is the immediate data.
type lossyCheck struct {
	t      *testing.T
	q      *UC
	mem    []byte // the region, between margins
	recv   []byte
	whole  map[uint32]int
	broken int
}

func (l *lossyCheck) Complete(c Completion) {
	if c.Err != nil {
		return
	}
	b := l.recv[:c.Bytes]
	if c.Op == rdma.OpWrite {
		b = l.mem[lossyMargin:][:c.Bytes]
	}
	for ; len(b) >= 4; b = b[4:] {
		if binary.BigEndian.Uint32(b) != c.Immediate {
			l.broken++
			break
		}
	}
	l.whole[c.Immediate]++
	require.NoError(l.t, l.q.PostRecv(Recv{Data: l.recv}))
}

func runLossy(t *testing.T, chance float64, messages int) {
	n := newNetwork()
	n.random = rand.New(rand.NewPCG(uint64(messages), uint64(1000*chance)))
	n.lose, n.twice, n.late = chance/3, chance/3, chance/3
	from, to := openDevice(t, n.newWire(here), Config{}), openDevice(t, n.newWire(there), Config{})
	l := &lossyCheck{t: t, whole: map[uint32]int{}, mem: make([]byte, lossyLong+2*lossyMargin), recv: make([]byte, lossyLong)}
	pd := to.NewProtectionDomain()
	region, err := pd.Register(l.mem[lossyMargin:][:lossyLong], rdma.RemoteWrite)
	require.NoError(t, err)
	l.q, err = pd.NewUC(UCConfig{Recv: l, Access: rdma.RemoteWrite})
	require.NoError(t, err)
	source, err := from.NewProtectionDomain().NewUC(UCConfig{})
	require.NoError(t, err)
	require.NoError(t, l.q.Connect(Peer{Address: Address{Addr: from.Addr()}, QP: source.Number(), PMTU: lossyMTU, PSN: 0xffff00}, 0))
	require.NoError(t, source.Connect(Peer{Address: Address{Addr: to.Addr()}, QP: l.q.Number(), PMTU: lossyMTU}, 0xffff00))
	require.NoError(t, l.q.PostRecv(Recv{Data: l.recv}))

	data := make([]byte, lossyLong)
	for i := range messages {
		b := data[:n.random.IntN(lossyLong/4+1)*4]
		lossyFill(b, uint32(i))
		wr := WR{Op: rdma.OpSend, Data: [][]byte{b}, Immediate: uint32(i), WithImmediate: true}
		if i%2 == 1 {
			wr.Op, wr.Remote = rdma.OpWrite, rdma.Remote{STag: region.STag(), TO: region.TO()}
		}
		require.NoError(t, source.Post(wr))
	}
	assert.Zero(t, l.broken, "messages with parts of others")
	assert.Equal(t, make([]byte, lossyMargin), l.mem[:lossyMargin])
	assert.Equal(t, make([]byte, lossyMargin), l.mem[lossyMargin+lossyLong:])

	s := to.Stats()
	delivered := 0
	for _, times := range l.whole {
		delivered += times
	}
	assert.EqualValues(t, delivered, s.Received.Messages)
	assert.EqualValues(t, messages, from.Stats().Sent.Messages)
	if chance == 0 {
		assert.Equal(t, messages, delivered)
		assert.Zero(t, s.Gaps+s.Broken)
	} else if messages > 1000 {
		assert.Less(t, len(l.whole), messages)
		assert.Positive(t, s.Gaps)
		assert.Positive(t, s.Broken)
		assert.Positive(t, s.Dropped[dropPSN])
	}
	t.Logf("%d messages: %d came whole, %d of them again; %d gaps, %d broken, %d packets dropped by PSN, %d by sequence",
		messages, len(l.whole), delivered-len(l.whole), s.Gaps, s.Broken, s.Dropped[dropPSN], s.Dropped[dropSequence])
}
