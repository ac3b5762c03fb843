package exports

import (
	"fmt"
	"slices"
	"strings"
)

// A Transport is the protection of a connection that carries calls. A greater one protects
// more.
type Transport uint8

// Transports for xprtsec=.
const (
	TransportNone Transport = iota // unencrypted
	TransportTLS                   // encrypted; the server has presented a certificate
	TransportMTLS                  // the client has presented one too
)

var transportWords = []string{"none", "tls", "mtls"}

// String returns the word for xprtsec=.
func (t Transport) String() string { return transportWords[t] }

// Transports are the transports that calls may use. The zero value means all of them.
type Transports struct{ words uint8 } // one bit for each Transport

// OfTransports returns the Transports in a list.
func OfTransports(list ...Transport) (t Transports) {
	for _, one := range list {
		t.words |= 1 << one
	}
	return t
}

// ParseTransports parses the value of xprtsec=: transports separated by colons.
func ParseTransports(value string) (t Transports, err error) {
	for word := range strings.SplitSeq(value, ":") {
		i := slices.Index(transportWords, word)
		if i < 0 {
			return t, fmt.Errorf("transport security %q is none of none, tls and mtls; write one of them, or several with colons between", word)
		}
		t.words |= 1 << i
	}
	return t, nil
}

// Set reports whether a list was given.
func (t Transports) Set() bool { return t.words != 0 }

// String returns the list in xprtsec= syntax.
func (t Transports) String() string {
	var list []string
	for i, word := range transportWords {
		if t.words == 0 || t.words&(1<<i) != 0 {
			list = append(list, word)
		}
	}
	return strings.Join(list, ":")
}

// Least returns the transport in the list that protects least.
func (t Transports) Least() Transport {
	for one := TransportTLS; one <= TransportMTLS; one++ {
		if t.words != 0 && t.words&(1<<one-1) == 0 {
			continue
		}
		return one - 1
	}
	return TransportMTLS
}

// Take reports whether calls may use a transport. A transport may always replace one in the
// list that protects less. Linux's server requires one in the list itself, so that xprtsec=tls
// there excludes clients that present certificates.
func (t Transports) Take(have Transport) bool { return have >= t.Least() }
