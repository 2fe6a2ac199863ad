package postgres

// Columns of a result with rows. The two before the position say which read a row
// is for; the others are the row's. A statement may return more behind these.
const (
	fetchRead = iota
	fetchLate
	fetchPosition
	fetchID
	fetchType
	fetchGroup
	fetchAggregateType
	fetchAggregateID
	fetchTenant
	fetchTags
	fetchHeaders
	fetchPayload
	fetchPayloadBytes
	fetchOccurredAt
	fetchCreatedAt
	fetchStored // bytes that are stored of a payload that was left out; see limits
)
