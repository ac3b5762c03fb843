package serverlist

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errDown = errors.New("connection refused")

// A fakeServer is the behavior of a server.
type fakeServer struct {
	err   error         // of each reply; nil: it serves
	delay time.Duration // before each reply
	mute  bool          // it accepts the connection, and never replies
	from  time.Duration // since the start of the test: when it begins to serve; 0: never

	asked int
}

// A fakeNetwork has the servers of a test.
type fakeNetwork struct {
	start   time.Time
	servers []*fakeServer
	moves   [][2]int
}

// newSelector returns a Selector of servers.
func newSelector(servers ...*fakeServer) (*Selector, *fakeNetwork) {
	n := &fakeNetwork{start: time.Now(), servers: servers}
	names := []string{"a", "b", "c", "d"}[:len(servers)]
	return New(Config{Servers: names, Ask: n.ask, Moved: func(from, to int) { n.moves = append(n.moves, [2]int{from, to}) }}), n
}

func (n *fakeNetwork) ask(ctx context.Context, i int) error {
	s := n.servers[i]
	s.asked++
	if s.mute {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.from > 0 && time.Since(n.start) >= s.from {
		return nil
	}
	return s.err
}

// TestFirstChoice checks which server is chosen first, and when.
func TestFirstChoice(t *testing.T) {
	refused := &RefusedError{errors.New("no such export")}
	down := func() *fakeServer { return &fakeServer{err: errDown} }
	serves := func(after time.Duration) *fakeServer { return &fakeServer{delay: after} }
	mute := func() *fakeServer { return &fakeServer{mute: true} }
	refuses := func() *fakeServer { return &fakeServer{err: refused} }
	for name, tt := range map[string]struct {
		servers []*fakeServer
		want    int
		took    time.Duration
	}{
		"the first":                      {[]*fakeServer{serves(0), down()}, 0, 0},
		"the second":                     {[]*fakeServer{down(), serves(0)}, 1, 0},
		"both: the faster":               {[]*fakeServer{serves(2 * time.Millisecond), serves(time.Millisecond)}, 1, time.Millisecond},
		"a silent one delays nothing":    {[]*fakeServer{mute(), serves(time.Millisecond)}, 1, time.Millisecond},
		"a late one delays nothing":      {[]*fakeServer{serves(time.Hour), serves(time.Millisecond)}, 1, time.Millisecond},
		"the late one alone":             {[]*fakeServer{serves(4 * time.Second), down()}, 0, 4 * time.Second},
		"a refusal is worse":             {[]*fakeServer{refuses(), serves(time.Second)}, 1, time.Second},
		"a refusal is better than none":  {[]*fakeServer{down(), refuses(), down()}, 1, 0},
		"a refusal waits for silent":     {[]*fakeServer{mute(), refuses()}, 1, refusalTime},
		"all refuse":                     {[]*fakeServer{refuses(), refuses()}, -1, 0},
		"the second serves a bit later":  {[]*fakeServer{mute(), {err: errDown, from: 250 * time.Millisecond}}, 1, 300 * time.Millisecond},
		"a refusing one begins to serve": {[]*fakeServer{mute(), {err: refused, from: time.Second}}, 1, 1200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, n := newSelector(tt.servers...)
				got, err := s.NewLink().Select(t.Context())
				require.NoError(t, err)
				if tt.want >= 0 {
					assert.Equal(t, tt.want, got)
				}
				assert.Equal(t, tt.took, time.Since(n.start))
				assert.Equal(t, got, s.Current())
				assert.Empty(t, n.moves)
			})
		})
	}
}

// TestNoneServes checks the errors: each server's own, and that servers are asked again
// only while another one has not replied.
func TestNoneServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{err: errDown}, &fakeServer{err: errors.New("no route"), delay: time.Millisecond})
		l := s.NewLink()
		_, err := l.Select(t.Context())
		assert.EqualError(t, err, "none of the 2 servers serves: a: connection refused; b: no route")
		assert.ErrorIs(t, err, errDown)
		assert.Equal(t, 1, n.servers[0].asked)
		n.servers[1].mute = true
		ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("timed out"))
		defer cancel()
		_, err = l.Select(ctx)
		assert.EqualError(t, err, "none of the 2 servers serves: a: connection refused; b: timed out")
		assert.Equal(t, 1+22, n.servers[0].asked, "after 0, 0.1, 0.3, 0.7, 1.2, 1.7 s, and so on")
		assert.Equal(t, 2, n.servers[1].asked)
	})
}

// connect selects a server for a Link and connects. aborted counts the aborts.
func connect(t *testing.T, l *Link, aborted *int) (server int) {
	server, err := l.Select(t.Context())
	require.NoError(t, err)
	l.Connected(func(error) { *aborted++ })
	return server
}

// TestLinksFollow checks that all connections of a client lead to one server: a loss moves
// the others too, each once, and only the first asks the servers.
func TestLinksFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{}, &fakeServer{err: errDown})
		links := []*Link{s.NewLink(), s.NewLink(), s.NewLink()}
		aborted := make([]int, 3)
		for i, l := range links {
			assert.Equal(t, 0, connect(t, l, &aborted[i]))
		}
		assert.Equal(t, 1, n.servers[0].asked)
		n.servers[0].err, n.servers[1].err = errDown, nil
		assert.Equal(t, 1, connect(t, links[0], &aborted[0]))
		assert.Equal(t, []int{0, 1, 1}, aborted)
		for i, l := range links[1:] {
			assert.Equal(t, 1, connect(t, l, &aborted[i+1]))
		}
		assert.Equal(t, []int{0, 1, 1}, aborted)
		assert.Equal(t, 2, n.servers[1].asked)
		assert.Equal(t, [][2]int{{0, 1}}, n.moves)
		assert.Equal(t, 1, connect(t, links[1], &aborted[1]), "asks, and stays")
		assert.Equal(t, 3, n.servers[1].asked)
		assert.Equal(t, []int{0, 1, 1}, aborted)
	})
}

// TestLateConnection checks that a connection to a server that was left meanwhile is
// aborted, and that a server which cannot be connected to is not taken for granted.
func TestLateConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{}, &fakeServer{err: errDown})
		slow, other := s.NewLink(), s.NewLink()
		_, err := slow.Select(t.Context())
		require.NoError(t, err)
		var aborted, aborts int
		connect(t, other, &aborts)
		n.servers[0].err, n.servers[1].err = errDown, nil
		assert.Equal(t, 1, connect(t, other, &aborts))
		slow.Connected(func(error) { aborted++ })
		assert.Equal(t, 1, aborted)
		got, err := slow.Select(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1, got)
		asked := n.servers[1].asked
		got, err = slow.Select(t.Context()) // it could not connect
		require.NoError(t, err)
		assert.Equal(t, 1, got)
		assert.Equal(t, asked+1, n.servers[1].asked)
	})
}

// TestRefusalLater checks that a later choice waits for a server that serves: another
// server's refusal, perhaps of other exports, would end the mount.
func TestRefusalLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{}, &fakeServer{err: &RefusedError{errors.New("no such export")}})
		l := s.NewLink()
		_, err := l.Select(t.Context())
		require.NoError(t, err)
		n.servers[0].err = errDown
		_, err = l.Select(t.Context())
		assert.EqualError(t, err, "none of the 2 servers serves: a: connection refused; b: no such export")
	})
}

// TestDoubt checks that a silent server is left only for one that serves, and only if it
// does not serve itself.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{}, &fakeServer{err: errDown}, &fakeServer{mute: true})
		l := s.NewLink()
		var aborted int
		connect(t, l, &aborted)
		time.Sleep(doubtPause)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		l.Doubt(ctx)
		assert.Equal(t, 1, n.servers[0].asked, "not asked again")
		assert.Zero(t, aborted)
		n.servers[1].err = nil
		asked := n.servers[1].asked
		l.Doubt(t.Context()) // too soon
		assert.Equal(t, asked, n.servers[1].asked)
		time.Sleep(doubtPause)
		l.Doubt(t.Context()) // both serve
		assert.Equal(t, asked+1, n.servers[1].asked)
		assert.Equal(t, 2, n.servers[0].asked)
		assert.Zero(t, aborted)
		n.servers[0].mute = true
		time.Sleep(doubtPause)
		began := time.Now()
		l.Doubt(t.Context())
		assert.Equal(t, confirmTime, time.Since(began))
		assert.Equal(t, 1, aborted)
		assert.Equal(t, [][2]int{{0, 1}}, n.moves)
		time.Sleep(doubtPause)
		l.Doubt(t.Context()) // of the old connection
		assert.Equal(t, 1, s.Current())
		assert.Equal(t, 1, connect(t, l, &aborted))
		assert.Equal(t, 1, aborted)
	})
}

// TestDoubts checks that many Links that doubt for a long time ask no more than one.
func TestDoubts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{}, &fakeServer{err: errDown})
		var aborted int
		var links []*Link
		for range 16 {
			l := s.NewLink()
			connect(t, l, &aborted)
			links = append(links, l)
		}
		asked := n.servers[1].asked
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			time.Sleep(time.Second / 32)
			links[n.servers[1].asked%16].Doubt(t.Context())
		}
		assert.InDelta(t, 10*time.Second/doubtPause, n.servers[1].asked-asked, 2)
		assert.Zero(t, aborted)
	})
}

// TestDoubtYields checks that a lost connection is replaced at once although the servers
// are being asked because of a silent one.
func TestDoubtYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := newSelector(&fakeServer{}, &fakeServer{mute: true})
		silent, lost := s.NewLink(), s.NewLink()
		var aborted int
		connect(t, silent, &aborted)
		connect(t, lost, &aborted)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			silent.Doubt(t.Context())
		}()
		synctest.Wait()
		silent.Doubt(t.Context()) // the servers are being asked
		assert.Equal(t, 0, connect(t, lost, &aborted))
		<-ended
		assert.Zero(t, time.Since(n.start))
		assert.Zero(t, aborted)
	})
}
