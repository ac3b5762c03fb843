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

// A fakePermissiveFS is a fakeRootFS in which everyone may do everything.
type fakePermissiveFS struct{ fakeRootFS }

func (f *fakePermissiveFS) Access(_ context.Context, _ *vfs.Cred, _ vfs.Handle, asked uint32) (uint32, vfs.MaybeAttr, error) {
	return asked, vfs.MaybeAttr{}, nil
}

// TestTrusted checks that every change is deferred while clients may trust delegations from an
// earlier server, even by a server that itself grants none.
func TestTrusted(t *testing.T) {
	ctx := context.Background()
	for name, holders := range map[string]*recall.Table{"delegations": recall.New(recall.Config{}), "none": nil} {
		t.Run(name, func(t *testing.T) {
			s := newTestSet(t, &fakePermissiveFS{}, func(c *Config) { c.Trusted, c.Holders = func() bool { return true }, holders })
			e := s.Snapshot().List()[0]
			root := e.FS.Root()
			p := Place{Dir: root, Name: "f"}
			for change, announce := range map[string]func(q *Request) error{
				"SETATTR":  func(q *Request) error { return q.BeforeSetAttr(ctx, root, &vfs.SetAttr{}) },
				"SETACL":   func(q *Request) error { return q.BeforeSetACL(ctx, root) },
				"SETXATTR": func(q *Request) error { return q.BeforeSetXattr(ctx, root) },
				"WRITE":    func(q *Request) error { return q.BeforeWrite(ctx, root) },
				"REMOVE":   func(q *Request) error { return q.BeforeUnlink(ctx, p) },
				"RENAME":   func(q *Request) error { return q.BeforeRename(ctx, p, p) },
				"LINK":     func(q *Request) error { return q.BeforeLink(ctx, root, p) },
				"CREATE":   func(q *Request) error { return q.BeforeMake(ctx, p, TruncateFile) },
			} {
				var q Request
				var reply oncrpc.Reply
				q.Begin(s, peerAt(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
				_, err := q.Open(ctx, s.AppendHandle(nil, e, &root))
				require.NoError(t, err)
				assert.ErrorIs(t, announce(&q), Later, change)
				q.End()
			}
		})
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
	h := &recall.Holder{Owner: 5, Recall: func() { recalls++ }}
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
