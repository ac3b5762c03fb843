package delegation

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
)

// A tablePair is a Grantor with a recall.Table, and another with a fakeTable. Both have two
// connections and one object.
type tablePair struct {
	*rand.Rand
	t       *testing.T
	real    *concurrentGrantor
	fake    *testGrantor
	clients [2]tableClient
	changes [3]tableChange
}

// A tableClient is a client's two connections. In each field, the first element is that of the
// recall.Table's Grantor.
type tableClient struct {
	conns    [2]*Conn
	words    [2]*memWords
	acquired *tableObject // an ACQUIRE in progress, or nil
	pending  *Acquisition
	grant    Grant    // the latest
	recalls  []Recall // unanswered, of the fakeTable's Grantor
}

type tableChange struct {
	real    recall.Change
	fake    Change
	running bool
}

func newTablePair(t *testing.T, seed uint64) *tablePair {
	p := &tablePair{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, real: newConcurrentGrantor(t, Config{Slots: 4}), fake: newTestGrantor(t, Config{Slots: 4})}
	for i := range p.clients {
		c := &p.clients[i]
		for n, g := range []*Grantor{p.real.g, p.fake.Grantor} {
			c.words[n] = &memWords{make([]uint64, 4)}
			c.conns[n] = g.Attach(c.words[n], 2, "", make(chan Recall, 2))
		}
	}
	return p
}

// now is the fakeTable's time, which is a few nanoseconds behind the other's.
func (p *tablePair) now() time.Duration { return time.Duration(p.real.clock.Load()) }

// noteEffects records the recalls by both Grantors, which must be the same.
func (p *tablePair) noteEffects(fx effects) {
	for _, r := range fx.Recalls {
		for i := range p.clients {
			if c := &p.clients[i]; c.conns[1] == r.Conn {
				c.recalls = append(c.recalls, r)
				p.fake.Sent(r, p.now())
			}
		}
	}
}

func (p *tablePair) prepare(c *tableClient) {
	if c.pending != nil {
		return
	}
	a, _, fx := p.fake.Prepare(c.conns[1], fileKey, p.now())
	p.noteEffects(fx)
	c.pending, c.acquired = a, p.real.prepareObject(c.conns[0], fileKey)
	require.Equal(p.t, a == nil, c.acquired == nil, "both grant, or neither")
}

func (p *tablePair) commit(c *tableClient) {
	if c.pending == nil {
		return
	}
	gt, why, fx := p.fake.Commit(c.pending, p.now())
	p.noteEffects(fx)
	realGrant, ok := p.real.commitObject(c.acquired)
	require.Equal(p.t, why == 0, ok)
	if c.pending, c.acquired = nil, nil; ok {
		require.Equal(p.t, gt, realGrant)
		c.grant = gt
		p.noteEffects(p.fake.Replied(c.conns[1], gt))
		p.real.runEffects(p.real.g.Replied(c.conns[0], gt))
	}
}

// returnRecalled answers the oldest recall.
func (p *tablePair) returnRecalled(c *tableClient) {
	select {
	case r := <-c.conns[0].Owner.(chan Recall):
		require.NotEmpty(p.t, c.recalls)
		require.Equal(p.t, c.recalls[0].Immediate, r.Immediate)
		c.recalls = c.recalls[1:]
		word := returnedMessage(Grant{r.Slot, r.Generation})
		p.noteEffects(p.fake.Immediate(c.conns[1], word))
		p.real.runEffects(p.real.g.Immediate(c.conns[0], word))
	default:
		require.Empty(p.t, c.recalls)
	}
}

// begin begins a change, or lets it go on as far as it can.
func (p *tablePair) begin(ch *tableChange, c *tableClient) {
	if ch.running && !p.fake.Waits(&ch.fake) {
		p.fake.Done(&ch.fake)
		p.real.table.Done(&ch.real)
		ch.running = false
		return
	}
	var conn *Conn
	by := recall.Changer{}
	if c != nil {
		conn, by.Conn = c.conns[1], c.conns[0]
	}
	if !ch.running {
		_, fx := p.fake.Change(&ch.fake, conn, fileKey, p.now())
		p.noteEffects(fx)
		ready := p.real.table.Begin(&ch.real, by, fileKey)
		ch.running = true
		require.Equal(p.t, !p.fake.Waits(&ch.fake), ready)
		return
	}
	require.ErrorIs(p.t, p.real.table.Wait(p.t.Context(), &ch.real, fairshare.Name{}), recall.ErrTryLater)
	p.fake.Postpone(&ch.fake, p.now())
	ch.running = false
}

// TestTables checks that the fakeTable, with which the other tests go through so many states, delays
// and permits the same changes and grants as a recall.Table, whatever happens to an object.
func TestTables(t *testing.T) {
	var sum Stats
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			p := newTablePair(t, seed)
			for range 200 {
				c, ch := &p.clients[p.IntN(2)], &p.changes[p.IntN(len(p.changes))]
				switch p.IntN(8) {
				case 0, 1:
					p.prepare(c)
				case 2:
					p.commit(c)
				case 3:
					p.returnRecalled(c)
				case 4: // unused
					for _, w := range c.words {
						if g := c.grant; slotWord(w.w[g.Slot]) == makeWord(g.Generation, 1) {
							w.w[g.Slot] = uint64(makeWord(g.Generation, 0))
						}
					}
				case 5:
					p.begin(ch, c)
				case 6:
					p.begin(ch, nil)
				default:
					p.real.clock.Add(int64(lease) / 8)
					for _, w := range append(p.clients[0].words[:], p.clients[1].words[:]...) {
						w.w[LeaseWord]++
					}
				}
				require.Equal(t, p.fake.Stats(), p.real.g.Stats())
				require.Equal(t, len(p.fake.table.held), p.real.table.Len())
			}
			sum = addStats(sum, p.real.g.Stats())
		})
	}
	for name, n := range map[string]uint64{"granted": sum.Granted, "refused": sum.Refused, "returned": sum.Returned, "reclaimed": sum.Reclaimed} {
		assert.NotZero(t, n, name)
	}
}
