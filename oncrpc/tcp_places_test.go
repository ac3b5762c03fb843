package oncrpc

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// crowdServer lets a party take all 14 places that it can get, of 16, and returns
// its connections. A record is begun on each, a second apart.
func crowdServer(t *testing.T, l *pipeListener) (all []net.Conn) {
	for range 16 {
		nc := l.dialFrom(1)
		all = append(all, nc)
		go nc.Write([]byte{0x80}) // the first byte of a record; no refused connection takes it
		time.Sleep(time.Second)
		synctest.Wait()
	}
	return all
}

// A resumableService is a Service whose calls may be repeated.
type resumableService struct{ Service }

func (resumableService) Resumes() bool { return true }

func closeAll(all []net.Conn) {
	for _, nc := range all {
		nc.Close()
	}
}

// TestPlacesForOthers checks that one party cannot keep others out by connections with
// calls in flight. The last eighth of the places is not for that party. Once it is taken,
// the connection whose calls have not moved for longest is replaced. A newcomer gets only
// a few places in this way.
func TestPlacesForOthers(t *testing.T) {
	s := &Server{Handler: resumableService{echoMux()}, MaxConns: 16, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		all := crowdServer(t, l)
		assert.Equal(t, Totals{Now: 14, Total: 14, Refused: 2}, s.Stats().Totals)
		for host := range byte(3) {
			nc := l.dialFrom(2 + host)
			all = append(all, nc)
			_, err := nc.Write([]byte{0x80})
			assert.NoError(t, err)
			synctest.Wait()
		}
		assert.Equal(t, Totals{Now: 16, Total: 17, Refused: 2, Replaced: 1}, s.Stats().Totals)
		_, err := all[0].Write([]byte{0})
		assert.Error(t, err, "the oldest")
		for range 8 {
			nc := l.dialFrom(9)
			all = append(all, nc)
			go nc.Write([]byte{0x80})
			synctest.Wait()
		}
		got := s.Stats()
		assert.Equal(t, 16, got.Now)
		assert.EqualValues(t, 1+6, got.Replaced, "of 13 there are 7, and 6 of the newcomer's")
		closeAll(all)
	})
}

// TestPlacesOfCallsThatStay checks that connections whose calls cannot be
// repeated are not replaced.
func TestPlacesOfCallsThatStay(t *testing.T) {
	s := &Server{Handler: echoMux(), MaxConns: 16, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		all := crowdServer(t, l)
		for host := range byte(3) {
			nc := l.dialFrom(2 + host)
			all = append(all, nc)
			go nc.Write([]byte{0x80})
			synctest.Wait()
		}
		assert.Equal(t, Totals{Now: 16, Total: 16, Refused: 3}, s.Stats().Totals)
		closeAll(all)
	})
}

// TestPlacesOfCallsThatHang checks the bound of connections that have lost
// their places but cannot end because their calls hang.
func TestPlacesOfCallsThatHang(t *testing.T) {
	s := &Server{MaxConns: 16, Log: discardLogger()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		gate := make(chan struct{})
		m := new(Mux)
		m.Register(testProg, 2, handlerFunc(func(context.Context, *Call, *Reply) error {
			<-gate
			return nil
		}))
		s.Handler = resumableService{m}
		var all []net.Conn
		for i := range byte(16 + 5) {
			nc := l.dialFrom(1 + i/6)
			all = append(all, nc)
			go nc.Write(newRecord(newCallMessage(uint32(i), testProg, 2, 1)))
			synctest.Wait()
		}
		got := s.Stats()
		assert.EqualValues(t, 2, got.Replaced)
		assert.EqualValues(t, 18, got.Now)
		close(gate)
		synctest.Wait()
		assert.Equal(t, 16, s.Stats().Now)
		closeAll(all)
	})
}
