package realm

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// testKey seals the handles of all tests.
var testKey = [32]byte{31: 1}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// A rootFS is a file system with nothing but a root directory, of which it has
// no attributes but the type. Its calls wait for gate, if it is not nil.
type rootFS struct {
	vfs.FS
	gate chan struct{}
}

func (f *rootFS) Root() vfs.Handle { return vfs.Handle{} }

func (f *rootFS) GetAttr(_ context.Context, _ *vfs.Cred, _ vfs.Handle) (vfs.Attr, error) {
	if f.gate != nil {
		<-f.gate
	}
	return vfs.Attr{Type: vfs.TypeDir}, nil
}

func (f *rootFS) AppendKey(b []byte, _ vfs.Handle) ([]byte, error) { return append(b, 1), nil }

func peerOf(host int) *oncrpc.Peer {
	addr := netip.AddrFrom4([4]byte{192, 0, byte(host >> 8), byte(host)})
	return &oncrpc.Peer{Addr: netip.AddrPortFrom(addr, 700), Network: "tcp"}
}

// hosts returns clients for networks, all with the options o.
func hosts(o exports.Options, nets ...string) (list []exports.Client) {
	for _, n := range nets {
		list = append(list, exports.Client{Host: exports.InNetwork(netip.MustParsePrefix(n)), Options: o})
	}
	return list
}

// newRealm exports fs as /x, after applying change.
func newRealm(t testing.TB, fs vfs.FS, change ...func(*Config)) *Realm {
	t.Helper()
	c := Config{Key: testKey, Exports: []Export{{Path: "/x", FS: fs}}}
	for _, f := range change {
		f(&c)
	}
	s, err := New(c)
	require.NoError(t, err)
	return s
}

// A crowd makes calls of one peer that may wait.
type crowd struct {
	realm   *Realm
	peer    *oncrpc.Peer
	waiting sync.WaitGroup

	mu       sync.Mutex
	answered map[error]int
}

func newCrowd(s *Realm, p *oncrpc.Peer) *crowd {
	return &crowd{realm: s, peer: p, answered: make(map[error]int)}
}

// call makes a call that gets the attributes of the root, as programs do.
func (c *crowd) call() {
	e := c.realm.Set().List()[0]
	root := e.FS.Root()
	fh := c.realm.AppendHandle(nil, e, &root)
	c.waiting.Go(func() {
		var q Request
		var reply oncrpc.Reply
		q.Begin(c.realm, c.peer, &rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 1000, GID: 100}, &reply)
		defer q.End()
		h, err := q.Open(context.Background(), fh)
		if err == nil {
			_, err = q.Export.FS.GetAttr(context.Background(), &q.Cred, h)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered[err]++
	})
}

// another returns a crowd of another host that counts as another party: two
// hosts may hash to the same counter.
func (c *crowd) another() *crowd {
	counter := func(p *oncrpc.Peer) *partyWork {
		return c.realm.permits.of(&c.realm.Set().List()[0].work, p)
	}
	b := newCrowd(c.realm, c.peer)
	for host := 2; counter(b.peer) == counter(c.peer); host++ {
		b.peer = peerOf(host)
	}
	return b
}
