package main

import (
	"errors"
	"fmt"
)

// checkSecurity returns an error for each export that nobody could use as its
// sec= says, because the daemon has no mechanism for it.
func (o *serveOptions) checkSecurity(list []export) error {
	if o.kerberos {
		return nil
	}
	var errs []error
	for i := range list {
		e := &list[i]
		for _, c := range e.clients {
			if f, ok := c.Options.Kerberos(); ok {
				errs = append(errs, fmt.Errorf("%s%s is exported to %s with sec=%s, and this daemon has no Kerberos: write sec=sys, or leave that client out",
					e.place, e.name, c.Host, f))
			}
		}
	}
	return errors.Join(errs...)
}
