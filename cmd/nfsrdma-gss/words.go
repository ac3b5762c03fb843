package main

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"github.com/nfsrdma/nfsrdma/tickets/wire"
)

// Major statuses (RFC 2744, Section 3.9.1), and minor ones: errors of RFC 4120,
// Section 7.5.9, and of MIT's library, both from the start of its table.
const (
	majorNoCred   = 7
	majorExpired  = 11
	majorEnded    = 12 // of a context
	table         = -1765328384
	unknownServer = 7   // KDC_ERR_S_PRINCIPAL_UNKNOWN
	ticketExpired = 32  // KRB_AP_ERR_TKT_EXPIRED
	clockSkew     = 37  // KRB_AP_ERR_SKEW
	noRealm       = 154 // KRB5_REALM_UNKNOWN
	noKDC         = 156 // KRB5_KDC_UNREACH
	kdcSkew       = 147 // KRB5_KDCREP_SKEW
	noCache       = 195 // KRB5_FCC_NOFILE
)

// reasonOf classifies the statuses of a function of the GSS-API.
func reasonOf(major, minor uint32) wire.Reason {
	switch int64(int32(minor)) - table {
	case unknownServer:
		return wire.NoService
	case ticketExpired:
		return wire.Expired
	case clockSkew, kdcSkew:
		return wire.Clock
	case noRealm, noKDC:
		return wire.NoKDC
	case noCache:
		return wire.NoTicket
	}
	switch major >> 16 & 0xff { // routine errors
	case majorNoCred:
		return wire.NoTicket
	case majorExpired, majorEnded:
		return wire.Expired
	}
	return wire.Other
}

// remedy puts the library's words into a sentence with a remedy.
func remedy(reason wire.Reason, service, words string) string {
	switch reason {
	case wire.NoService:
		return fmt.Sprintf("the KDC does not know %s: mount the server by the name in its keytab, or add the principal (%s)", service, words)
	case wire.NoKDC:
		return fmt.Sprintf("no KDC answers: see /etc/krb5.conf, and whether the network reaches the KDC (%s)", words)
	case wire.Clock:
		return fmt.Sprintf("the clocks of this machine and the KDC differ by too much: set them (%s)", words)
	}
	return words
}

// ticketWords says why a credential cache has no valid ticket. ended is the end of
// its last ticket in seconds since 1970, or 0.
func ticketWords(cache string, ended uint64) (wire.Reason, string) {
	if ended == 0 {
		return wire.NoTicket, fmt.Sprintf("no ticket (%s): run kinit", cache)
	}
	return wire.Expired, fmt.Sprintf("your ticket expired %s ago (%s): run kinit", since(time.Since(time.Unix(int64(ended), 0))), cache)
}

// since writes a duration in one unit.
func since(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= unit.size {
			return count(int(d/unit.size), unit.name)
		}
	}
	return count(int(max(d, 0)/time.Second), "second")
}

func count(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// clockWords says how much the clocks of client and server differ, by the time in
// the server's KRB-ERROR.
func clockWords(answer []byte) string {
	server, ok := serverTime(answer)
	if !ok {
		return "the clocks of client and server differ by more than 5 minutes: set them"
	}
	minutes := int(math.Ceil(math.Abs(time.Until(server).Minutes())))
	return fmt.Sprintf("the clocks of client and server differ by %s (limit 5): set them", count(minutes, "minute"))
}

// serverTime returns stime of a KRB-ERROR (RFC 4120, Section 5.9.1) in its frame
// (RFC 4121, Section 4.1).
func serverTime(token []byte) (time.Time, bool) {
	var frame, body, message, fields cryptobyte.String
	var kind uint16
	input := cryptobyte.String(token)
	if !input.ReadASN1(&frame, asn1.Tag(0).Constructed()|0x60) || !frame.SkipASN1(asn1.OBJECT_IDENTIFIER) ||
		!frame.ReadUint16(&kind) || kind != 0x0300 {
		return time.Time{}, false
	}
	if body = frame; !body.ReadASN1(&message, asn1.Tag(0x7e)) || !message.ReadASN1(&fields, asn1.SEQUENCE) {
		return time.Time{}, false
	}
	for !fields.Empty() {
		var field cryptobyte.String
		var tag asn1.Tag
		if !fields.ReadAnyASN1(&field, &tag) {
			return time.Time{}, false
		}
		if tag == asn1.Tag(4).ContextSpecific().Constructed() {
			var at time.Time
			ok := field.ReadASN1GeneralizedTime(&at)
			return at, ok
		}
	}
	return time.Time{}, false
}
