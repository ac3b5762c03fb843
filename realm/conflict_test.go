package realm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A permissiveFS is a rootFS in which everyone may do everything.
type permissiveFS struct{ rootFS }

func (f *permissiveFS) Access(_ context.Context, _ *vfs.Cred, _ vfs.Handle, asked uint32) (uint32, vfs.MaybeAttr, error) {
	return asked, vfs.MaybeAttr{}, nil
}

// TestTrusted checks that every change is put off while clients may trust delegations
// of an earlier server, also by a server that itself grants none.
func TestTrusted(t *testing.T) {
	ctx := context.Background()
	for name, holders := range map[string]*recall.Table{"delegations": recall.New(recall.Config{}), "none": nil} {
		t.Run(name, func(t *testing.T) {
			s := newRealm(t, &permissiveFS{}, func(c *Config) { c.Trusted, c.Holders = func() bool { return true }, holders })
			e := s.Set().List()[0]
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
				"CREATE":   func(q *Request) error { return q.BeforeMake(ctx, p, Cuts) },
			} {
				var q Request
				var reply oncrpc.Reply
				q.Begin(s, peerOf(1), &rpcmsg.Cred{Flavor: rpcmsg.AuthSys}, &reply)
				_, err := q.Open(ctx, s.AppendHandle(nil, e, &root))
				require.NoError(t, err)
				assert.ErrorIs(t, announce(&q), Later, change)
				q.End()
			}
		})
	}
}
