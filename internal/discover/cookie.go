package discover

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/roce"
)

// A baker makes cookies. A cookie shows that its sender can receive messages at
// the same address and queue pair. The baker does not store cookies.
type baker struct{ key [32]byte }

func newBaker() *baker {
	b := new(baker)
	rand.Read(b.key[:])
	return b
}

// cookie returns a client's cookie in the period of time at; never 0.
func (b *baker) cookie(from roce.Source, at time.Time) uint64 {
	h := hmac.New(sha256.New, b.key[:])
	a := from.Addr.As16()
	_, _ = h.Write(a[:])
	var rest [12]byte
	binary.BigEndian.PutUint32(rest[:], from.QP)
	binary.BigEndian.PutUint64(rest[4:], uint64(at.Unix()/int64(cookieTime/time.Second)))
	_, _ = h.Write(rest[:])
	return binary.BigEndian.Uint64(h.Sum(nil)) | 1
}

// good reports whether a cookie was given in this period or the period before.
func (b *baker) good(cookie uint64, from roce.Source, now time.Time) bool {
	return cookie != 0 && (cookie == b.cookie(from, now) || cookie == b.cookie(from, now.Add(-cookieTime)))
}
