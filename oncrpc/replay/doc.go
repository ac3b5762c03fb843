// Package replay keeps the replies of calls that must not be executed twice, and
// answers retransmitted calls with them. It must not know programs or
// transports: the caller says which procedures it is for.
package replay
