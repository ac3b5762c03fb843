package nfs4server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/racetest"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// A fakeCachingClient is a client that uses a file as Linux does: under a delegation it reads the
// file from its cache, under one for writing it also writes there, and writes the
// changes back at a recall, at times of its own, or never before that.
type fakeCachingClient struct {
	t    *testing.T
	rng  *rand.Rand
	name string
	main *testServer // for the program
	back *testServer // for replies to callbacks

	mu      sync.Mutex
	fh      nfs4.FH
	held    nfs4.Delegation
	id      nfs4.StateID
	change  uint64 // from the file, with the delegation
	content string // under a delegation
	dirty   bool
	early   nfs4.StateID // recalled, although the client does not know it yet
}

func newCachingClient(t *testing.T, g *testServer, n int, rng *rand.Rand, put step) *fakeCachingClient {
	c := &fakeCachingClient{t: t, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), name: fmt.Sprint("client ", n), fh: put.args.(*nfs4.HandleArgs).Object}
	main, channel := g.newClientAt(c.name, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + n)}), 700).String())
	c.main, c.back = main, main.anotherSession(c.name)
	channel.recalled = func(a *nfs4.CBRecallArgs, _ nfs4.CBSequenceArgs) {
		c.mu.Lock()
		pause := time.Duration(c.rng.IntN(400)) * time.Millisecond
		c.mu.Unlock()
		time.Sleep(pause)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.id.Other != a.StateID.Other {
			c.early = a.StateID
			return
		}
		c.returnLocked()
	}
	channel.getattr = func(context.Context, nfs4.CBGetAttrArgs) (res nfs4.GetAttrRes, _ error) {
		if !c.mu.TryLock() { // the delegation is being returned
			return nfs4.GetAttrRes{Status: nfs4.ErrDelay}, nil
		}
		defer c.mu.Unlock()
		if c.held != nfs4.DelegateWrite {
			return nfs4.GetAttrRes{Status: nfs4.ErrBadHandle}, nil
		}
		res.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange), Size: uint64(len(c.content)), Change: c.change}
		if c.dirty {
			res.Attrs.Change++
		}
		return res, nil
	}
	return c
}

// putStep returns PUTFH for the file.
func (c *fakeCachingClient) putStep() step {
	return step{nfs4.OpPutFH, &nfs4.HandleArgs{Object: c.fh}, newStatusRes()}
}

// flushLocked writes the changes back.
func (c *fakeCachingClient) flushLocked(by *testServer) {
	if c.dirty {
		size := nfs4.SetAttrArgs{StateID: c.id}
		size.Attrs.Mask = nfs4.BitmapOf(nfs4.AttrSize)
		st, _ := by.sendSteps(c.putStep(), step{nfs4.OpSetAttr, &size, new(nfs4.SetAttrRes)},
			step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: c.id, Data: []byte(c.content)}, new(nfs4.WriteRes)})
		assert.Equal(c.t, nfs4.OK, st)
		c.dirty = false
	}
}

func (c *fakeCachingClient) returnLocked() {
	if c.held == nfs4.DelegateNone {
		return
	}
	c.flushLocked(c.back)
	assert.Equal(c.t, nfs4.OK, c.back.returnDelegation(c.putStep(), c.id))
	c.held = nfs4.DelegateNone
}

// retryUntilDone repeats a call that is deferred.
func (c *fakeCachingClient) retryUntilDone(call func() nfs4.Status) {
	for {
		switch st := call(); st {
		case nfs4.OK:
			return
		case nfs4.ErrDelay:
			time.Sleep(100 * time.Millisecond)
		default:
			require.Equal(c.t, nfs4.OK, st)
		}
	}
}

// openFile opens the file at the server, and returns its stateid.
func (c *fakeCachingClient) openFile(access uint32) (id nfs4.StateID) {
	c.retryUntilDone(func() nfs4.Status {
		a := nfs4.OpenArgs{ShareAccess: access, Owner: nfs4.StateOwner{Owner: []byte("o")}, How: nfs4.NoCreate, Claim: nfs4.ClaimFH}
		var res nfs4.OpenRes
		var attr nfs4.GetAttrRes
		st, _ := c.main.sendSteps(c.putStep(), step{nfs4.OpOpen, &a, &res}, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrChange)}, &attr})
		if st != nfs4.OK {
			return st
		}
		id = res.StateID
		if d := res.Delegation; d.Type == nfs4.DelegateRead || d.Type == nfs4.DelegateWrite {
			c.mu.Lock()
			data, st := c.main.readFile(c.fh, d.StateID)
			assert.Equal(c.t, nfs4.OK, st)
			c.held, c.id, c.change, c.content, c.dirty = d.Type, d.StateID, attr.Attrs.Change, data, false
			if c.early.Other == d.StateID.Other {
				c.returnLocked()
			}
			c.mu.Unlock()
		}
		return nfs4.OK
	})
	return id
}

// writeFile replaces the content by open, write and close.
func (c *fakeCachingClient) writeFile(content string) {
	if c.writeCached(content) {
		return
	}
	id := c.openFile(nfs4.ShareBoth)
	if !c.writeCached(content) {
		size := nfs4.SetAttrArgs{StateID: id}
		size.Attrs.Mask = nfs4.BitmapOf(nfs4.AttrSize)
		c.retryUntilDone(func() nfs4.Status {
			st, _ := c.main.sendSteps(c.putStep(), step{nfs4.OpSetAttr, &size, new(nfs4.SetAttrRes)},
				step{nfs4.OpWrite, &nfs4.WriteArgs{StateID: id, Data: []byte(content)}, new(nfs4.WriteRes)})
			return st
		})
		c.mu.Lock()
		c.content = content // a read delegation stays with its client's own change
		c.mu.Unlock()
	}
	c.retryUntilDone(func() nfs4.Status { return c.main.closeFile(c.fh, id) })
}

func (c *fakeCachingClient) writeCached(content string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nfs4.DelegateWrite {
		return false
	}
	c.content, c.dirty = content, true
	if c.rng.IntN(4) == 0 {
		c.flushLocked(c.main)
	}
	return true
}

// readFile returns the content by open, read and close.
func (c *fakeCachingClient) readFile() (content string) {
	c.mu.Lock()
	if c.held != nfs4.DelegateNone {
		defer c.mu.Unlock()
		return c.content
	}
	c.mu.Unlock()
	id := c.openFile(nfs4.ShareRead)
	c.retryUntilDone(func() (st nfs4.Status) {
		content, st = c.main.readFile(c.fh, id)
		return st
	})
	c.retryUntilDone(func() nfs4.Status { return c.main.closeFile(c.fh, id) })
	return content
}

// statFile returns the size and the change attribute.
func (c *fakeCachingClient) statFile() (attrs nfs4.Attrs, own bool) {
	c.mu.Lock()
	if c.held != nfs4.DelegateNone {
		defer c.mu.Unlock()
		return nfs4.Attrs{Size: uint64(len(c.content))}, true
	}
	c.mu.Unlock()
	c.retryUntilDone(func() (st nfs4.Status) {
		attrs, st = c.main.statStep(c.putStep())
		return st
	})
	return attrs, false
}

// readAnonymous reads without an open.
func (c *fakeCachingClient) readAnonymous() (content string) {
	c.mu.Lock()
	if c.held != nfs4.DelegateNone {
		defer c.mu.Unlock()
		return c.content
	}
	c.mu.Unlock()
	c.retryUntilDone(func() (st nfs4.Status) {
		content, st = c.main.readFile(c.fh, nfs4.AnonymousStateID)
		return st
	})
	return content
}

// TestWriterSchedules runs random schedules of clients that keep a file in their caches:
// each open sees the last close, each GETATTR the last size, the change attribute never
// falls and is another one for other content, and nothing written is lost.
func TestWriterSchedules(t *testing.T) {
	steps, schedules, granted := 60, 150, uint64(0)
	if testing.Short() {
		schedules = 20
	}
	schedules = racetest.Schedules(schedules)
	for seed := range schedules {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 37))
			g, _ := newWriteDelegServer(t)
			put := g.makeFileStep("f")
			truth := "hello"
			var clients []*fakeCachingClient
			for n := range 3 {
				clients = append(clients, newCachingClient(t, g, n, rng, put))
			}
			var last nfs4.Attrs
			var log []string
			check := func(what string, got any, want any) {
				require.Equal(t, want, got, "seed %d: %s after %s", seed, what, strings.Join(log, ", "))
			}
			for range steps {
				c := clients[rng.IntN(len(clients))]
				kind := rng.IntN(6)
				log = append(log, fmt.Sprint(c.name, " ", kind))
				switch kind {
				case 0, 1:
					truth = strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(20))
					c.writeFile(truth)
				case 2, 3:
					check("read", c.readFile(), truth)
				case 4:
					attrs, own := c.statFile()
					check("size", attrs.Size, uint64(len(truth)))
					if !own {
						assert.GreaterOrEqual(t, attrs.Change, last.Change, "seed %d", seed)
						if attrs.Change == last.Change {
							check("size for the same change", attrs.Size, last.Size)
						}
						last = attrs
					}
				case 5:
					check("read without an open", c.readAnonymous(), truth)
				}
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(20)) * time.Second)
					for _, c := range clients { // leases
						st, _ := c.main.sendSteps()
						require.Equal(t, nfs4.OK, st)
					}
				}
			}
			check("read", clients[0].readFile(), truth)
			granted += g.s.Counts().Granted
		})
	}
	assert.Greater(t, granted, uint64(schedules), "delegations")
}
