export declare class FirstwordError extends Error {
    code: string;
    param: string | null;
    status: number;
    retryAfterS: number | null;
    /**
     * @param {string} message
     * @param {string} code such as "speaker_not_found"; docs/api.md lists them
     * @param {string | null} param the field that is wrong, if one is
     * @param {number} status of HTTP; 0: none came
     * @param {number | null} retryAfterS when it is worth another try
     */
    constructor(message: string, code: string, param?: string | null, status?: number, retryAfterS?: number | null);
    /**
     * The error in an answer over HTTP.
     * @param {Response} response
     */
    static of(response: Response): Promise<FirstwordError>;
}
/** The connection broke after a speech had begun to sound. */
export declare class ConnectionLost extends FirstwordError {
    /** @param {string} message */
    constructor(message: string);
}
