package discover

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// A cookieIssuer creates and verifies return-address cookies. A cookie shows that
// its sender can receive messages at the same address and queue pair. The issuer
// does not store cookies.
type cookieIssuer struct{ key [32]byte }

func newCookieIssuer() *cookieIssuer {
	b := new(cookieIssuer)
	rand.Read(b.key[:])
	return b
}

// newCookie returns a client's cookie for the period that contains at; never 0.
func (b *cookieIssuer) newCookie(from roce.Source, at time.Time) uint64 {
	h := hmac.New(sha256.New, b.key[:])
	a := from.Addr.As16()
	_, _ = h.Write(a[:])
	var rest [12]byte
	binary.BigEndian.PutUint32(rest[:], from.QP)
	binary.BigEndian.PutUint64(rest[4:], uint64(at.Unix()/int64(cookieTime/time.Second)))
	_, _ = h.Write(rest[:])
	return binary.BigEndian.Uint64(h.Sum(nil)) | 1
}

// isValid reports whether a cookie was issued in this period or the previous one.
func (b *cookieIssuer) isValid(cookie uint64, from roce.Source, now time.Time) bool {
	return cookie != 0 && (cookie == b.newCookie(from, now) || cookie == b.newCookie(from, now.Add(-cookieTime)))
}
