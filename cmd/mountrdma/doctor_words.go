package main

import (
	"errors"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctls"
)

// moreProtection is the remedy for a server that rejects calls which others could read.
const moreProtection = "add xprtsec=mtls, xprtsec=tls or sec=krb5p to the options"

// splitRemedy splits an error into its text and its remedy: the remedy of a stepError, or
// that at the end of other packages' errors, or else other.
func splitRemedy(err error, other string) (found, remedy string) {
	found, remedy = err.Error(), other
	ticket, _ := errors.AsType[*tickets.Error](err)
	if ticket != nil {
		found = ticket.Error() // without the operation that failed
	}
	if step, ok := errors.AsType[*stepError](err); ok {
		found = step.step + ": " + step.what
		if step.remedy != "" {
			return found, step.remedy
		}
	}
	search, _ := errors.AsType[*nfsclient.SearchError](err)
	secure, _ := errors.AsType[*rpctls.Error](err)
	switch {
	case ticket != nil:
		remedy = "see klist, /etc/krb5.conf and the server's log"
		if ticket.Reason != wire.Other {
			_, remedy = cutRemedy(ticket.Text, remedy) // not the text after the user
		}
		return strings.TrimSuffix(found, ": "+remedy), remedy
	case errors.Is(err, rpcmsg.AuthTooWeak) && strings.HasSuffix(found, rpcmsg.AuthTooWeak.Error()):
		return found, moreProtection
	case search != nil, errors.Is(err, errNoContextHelper), errors.Is(err, rpcmsg.AuthTooWeak):
		return cutRemedy(found, remedy)
	case secure != nil:
		return found, "correct this at the end that it names (/usr/share/doc/nfsrdma/tls.md), or connect without --xprtsec"
	}
	return found, remedy
}

// cutRemedy splits a sentence of the form "fault (details): remedy". It returns other as the
// remedy if the sentence has none.
func cutRemedy(words, other string) (found, remedy string) {
	depth := 0
	for i := len(words) - 1; i > 0; i-- {
		switch {
		case words[i] == ')':
			depth++
		case words[i] == '(':
			depth--
		case depth == 0 && strings.HasPrefix(words[i:], ": "):
			return words[:i], words[i+2:]
		}
	}
	return words, other
}
