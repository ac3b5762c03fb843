package krb5

import "time"

// Skew is the maximum difference between two ends' clocks. An Acceptor accepts tickets
// and authenticators whose times differ by up to that. It does not change
// Context.Expires: a Context's user must keep it for Skew after that.
const Skew = 5 * time.Minute
