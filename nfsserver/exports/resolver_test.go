package exports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lookupcache"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	errDown = errors.New("server misbehaving")
	errNone = &net.DNSError{Err: "no such host", IsNotFound: true}
)

// A fakeNameService is a name service.
type fakeNameService struct {
	forward map[string][]string
	reverse map[string][]string
	down    atomic.Bool
	slow    time.Duration
	asked   atomic.Int32
	last    atomic.Pointer[string] // name asked for
}

func (z *fakeNameService) waitIfBlocked(ctx context.Context) error {
	z.asked.Add(1)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(z.slow):
	}
	if z.down.Load() {
		return errDown
	}
	return nil
}

func (z *fakeNameService) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	if err := z.waitIfBlocked(ctx); err != nil {
		return nil, err
	}
	if names := z.reverse[addr]; names != nil {
		return names, nil
	}
	return nil, errNone
}

func (z *fakeNameService) LookupNetIP(ctx context.Context, network, host string) (addrs []netip.Addr, err error) {
	if err := z.waitIfBlocked(ctx); err != nil {
		return nil, err
	}
	z.last.Store(&host)
	names := z.forward[strings.TrimSuffix(host, ".")]
	if network != "ip" || names == nil {
		return nil, errNone
	}
	for _, a := range names {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

func newFakeNameService() *fakeNameService {
	return &fakeNameService{
		forward: map[string][]string{"a.example": {"192.0.2.1", "::ffff:192.0.2.2", "fe80::1%eth0"}, "b.example": {"192.0.2.9"}},
		reverse: map[string][]string{"192.0.2.1": {"A.Example.", "b.example.", "none.example."}},
	}
}

func TestResolver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResolver(newFakeNameService(), nil)
		defer r.Close()
		names, err := r.NamesOf(t.Context(), netip.MustParseAddr("192.0.2.1"))
		require.NoError(t, err)
		assert.Equal(t, []string{"a.example"}, names, "others do not lead back")
		names, err = r.NamesOf(t.Context(), netip.MustParseAddr("192.0.2.7"))
		require.NoError(t, err)
		assert.Empty(t, names)
		addrs, err := r.AddrsOf(t.Context(), "a.example")
		require.NoError(t, err)
		assert.Equal(t, []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("fe80::1")}, addrs)
		addrs, err = r.AddrsOf(t.Context(), "none.example")
		require.NoError(t, err)
		assert.Empty(t, addrs)
	})
}

// TestResolverAges checks that no call waits for a reply known within the
// hour, and that the name service is not queried more often than useful.
func TestResolverAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeNameService()
		z.slow = time.Second
		r := NewResolver(z, nil)
		defer r.Close()
		ask := func(name string) (n int, took time.Duration, asked int32, err error) {
			start, before := time.Now(), z.asked.Load()
			addrs, err := r.AddrsOf(t.Context(), name)
			took = time.Since(start)
			time.Sleep(2 * time.Second) // the queries end
			return len(addrs), took, z.asked.Load() - before, err
		}
		for _, tt := range []struct {
			what  string
			pause time.Duration
			name  string
			down  bool
			want  string // number, time, queries, error
		}{
			{"first", 0, "b.example", false, "1 1s 1 <nil>"},
			{"fresh", freshTime - 5*time.Second, "b.example", false, "1 0s 0 <nil>"},
			{"old", freshTime, "b.example", false, "1 0s 1 <nil>"},
			{"old, and the service is down", freshTime, "b.example", true, "1 0s 1 <nil>"},
			{"again, soon", 0, "b.example", true, "1 0s 0 <nil>"},
			{"later", retryTime, "b.example", true, "1 0s 1 <nil>"},
			{"too old", staleTime, "b.example", true, "0 1s 1 server misbehaving"},
			{"too old, soon", 0, "b.example", true, "0 0s 0 server misbehaving"},
			{"back", retryTime, "b.example", false, "1 1s 1 <nil>"},
			{"none", 0, "none.example", false, "0 1s 1 <nil>"},
			{"none, soon", 0, "none.example", false, "0 0s 0 <nil>"},
			{"none, later", noneTime, "none.example", false, "0 0s 1 <nil>"},
		} {
			time.Sleep(tt.pause)
			z.down.Store(tt.down)
			n, took, asked, err := ask(tt.name)
			assert.Equal(t, tt.want, fmt.Sprint(n, " ", took, " ", asked, " ", err), tt.what)
		}
	})
}

// TestResolverBounds checks that the name service is queried once for many
// calls, for at most lookupTimeout, and by a bounded number at once.
func TestResolverBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := newFakeNameService()
		z.slow = time.Hour
		r := NewResolver(z, nil)
		start := time.Now()
		for range 10 {
			go func() {
				_, err := r.AddrsOf(t.Context(), "a.example")
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, lookupTimeout, time.Since(start))
			}()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.AddrsOf(impatient, "a.example")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(start))
		assert.EqualValues(t, 1, z.asked.Load())

		time.Sleep(lookupTimeout)
		synctest.Wait()
		for i := range maxLookups {
			go func() { _, _ = r.AddrsOf(t.Context(), fmt.Sprint(i)) }()
		}
		synctest.Wait()
		_, err = r.AddrsOf(t.Context(), "one more")
		assert.ErrorIs(t, err, lookupcache.ErrBusy)
		r.Close()
		synctest.Wait()
		_, err = r.AddrsOf(t.Context(), "late")
		assert.ErrorIs(t, err, lookupcache.ErrClosed)
	})
}

// TestConfirmedAsItIs checks that an address's name is confirmed without the host's search
// list, even a name without another dot; a name in /etc/hosts has none, and is looked up as it
// is written there.
func TestConfirmedAsItIs(t *testing.T) {
	for name, want := range map[string]string{"a.trusted.": "a.trusted.", "A.trusted": "a.trusted.", "trusted.": "trusted.", "client": "client"} {
		z := &fakeNameService{reverse: map[string][]string{"198.51.100.7": {name}}}
		r := NewResolver(z, nil)
		_, err := r.NamesOf(t.Context(), netip.MustParseAddr("198.51.100.7"))
		require.NoError(t, err)
		assert.Equal(t, want, *z.last.Load())
		r.Close()
	}
}
