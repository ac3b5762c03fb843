package exportset

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakePermissiveFS is a fakeRootFS in which everyone may do everything, and each name but
// "none" leads to a file.
type fakePermissiveFS struct{ fakeRootFS }

func (f *fakePermissiveFS) Lookup(_ context.Context, _ *vfs.Cred, _ vfs.Handle, name string) (h vfs.Handle, attr, dir vfs.MaybeAttr, _ error) {
	if name == "none" {
		return h, attr, dir, syscall.ENOENT
	}
	return vfs.Handle{}, vfs.MaybeAttr{OK: true, Attr: vfs.Attr{Type: vfs.TypeReg}}, dir, nil
}

func (f *fakePermissiveFS) Access(_ context.Context, _ *vfs.Cred, _ vfs.Handle, asked uint32) (uint32, vfs.MaybeAttr, error) {
	return asked, vfs.MaybeAttr{}, nil
}

// TestDeferred checks that every change is deferred while clients may trust delegations from an
// earlier server, even by a server that itself grants none.
func TestDeferred(t *testing.T) {
	for name, holders := range map[string]*recall.Table{"delegations": recall.New(recall.Config{}), "none": nil} {
		for kind, byState := range map[string]bool{"counters": true, "NFSv4": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				checkDeferred(t, newTestSet(t, &fakePermissiveFS{}, func(c *Config) {
					c.Holders = holders
					c.DefersChange = func(by bool) bool { return byState || !by }
				}), byState)
			})
		}
	}
}

// checkDeferred checks that every change is deferred, but one by NFSv4 state only if byState is
// set. Reclaims are not deferred.
func checkDeferred(t *testing.T, s *Set, byState bool) {
	ctx := context.Background()
	e := s.Snapshot().List()[0]
	root := e.FS.Root()
	p := Place{Dir: root, Name: "f"}
	announced := map[string]func(q *Request) error{
		"SETATTR":  func(q *Request) error { return q.BeforeSetAttr(ctx, root, &vfs.SetAttr{}) },
		"SETACL":   func(q *Request) error { return q.BeforeSetACL(ctx, root) },
		"SETXATTR": func(q *Request) error { return q.BeforeSetXattr(ctx, root) },
		"WRITE":    func(q *Request) error { return q.BeforeWrite(ctx, root) },
		"REMOVE":   func(q *Request) error { return q.BeforeUnlink(ctx, p) },
		"RENAME":   func(q *Request) error { return q.BeforeRename(ctx, p, Place{Dir: root, Name: "none"}) },
		"LINK":     func(q *Request) error { return q.BeforeLink(ctx, root, Place{Dir: root, Name: "none"}) },
		"CREATE":   func(q *Request) error { return q.BeforeMake(ctx, p, TruncateFile) },
	}
	byOpens := map[string]func(q *Request) error{
		"WRITE with an open": func(q *Request) error { return q.BeforeStateWrite(ctx, root) },
		"OPEN for writing":   func(q *Request) error { return q.BeforeOpenWrite(ctx, root) },
	}
	announce := func(announce func(q *Request) error) error {
		var q Request
		var reply oncrpc.Reply
		q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
		_, err := q.Open(ctx, s.AppendHandle(nil, e, &root))
		require.NoError(t, err)
		defer q.End()
		return announce(&q)
	}
	for change, f := range announced {
		assert.ErrorIs(t, announce(f), Later, change)
	}
	assert.NoError(t, announce(func(q *Request) error { return q.BeforeReclaim(ctx, root) }))
	for change, f := range byOpens {
		if err := announce(f); byState {
			assert.ErrorIs(t, err, Later, change)
		} else {
			assert.NoError(t, err, change)
		}
	}
}

// A fakeAliasFS is a fakePermissiveFS with a handle that has no key, for an object that has
// one.
type fakeAliasFS struct{ fakePermissiveFS }

func (f *fakeAliasFS) AppendKey(b []byte, _ vfs.Handle) ([]byte, error) { return b, syscall.EOPNOTSUPP }

func (f *fakeAliasFS) AppendAliasKey(b []byte, _ vfs.Handle) ([]byte, error) {
	return append(b, 7), nil
}

// TestAliasChanged checks that a change with a handle without a key recalls the object's
// delegations.
func TestAliasChanged(t *testing.T) {
	holders := recall.New(recall.Config{Now: func() time.Duration { return 0 }})
	s := newTestSet(t, &fakeAliasFS{}, func(c *Config) { c.Holders = holders })
	recalls := 0
	h := &recall.Holder{Owner: 5, Recall: func(recall.Changer) { recalls++ }}
	require.True(t, holders.Hold(h, []byte{7}))
	require.True(t, h.Confirm())
	e := s.Snapshot().List()[0]
	root := e.FS.Root()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var q Request
	var reply oncrpc.Reply
	q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
	_, err := q.Open(t.Context(), s.AppendHandle(nil, e, &root))
	require.NoError(t, err)
	assert.ErrorIs(t, q.BeforeSetACL(ctx, root), Later)
	assert.Equal(t, 1, recalls)
	q.End()
}
